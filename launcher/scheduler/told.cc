#include "launcher/scheduler/told.h"

#include <cstdint>

#include "launcher/python_numbers.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// Below the range that Linux gives out by itself (32768 and up): no other program happens to be
/// there.
constexpr int kPortsFirst = 20'000;
constexpr int kPorts = 10'000;
/// A prime: step 1 of a job should not have the port of the next job, which may share the node.
constexpr std::uint64_t kPartStride = 101;

}  // namespace

std::optional<std::string> told_text(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  std::string text(value == nullptr ? std::string_view() : trimmed(value));
  return text.empty() ? std::nullopt : std::optional(std::move(text));
}

std::optional<int> told_number(const Environment& environment, const char* name) {
  const auto text = told_text(environment, name);
  const auto number = text ? read_int(*text) : std::nullopt;
  return number && *number >= 0 ? number : std::nullopt;
}

int derived_port(std::uint64_t job, std::uint64_t part) {
  const std::uint64_t place = (job % kPorts + part % kPorts * kPartStride) % kPorts;
  const int port = kPortsFirst + static_cast<int>(place);
  DDP_CHECK(port < kPortsFirst + kPorts, "the port is one of the range");
  return port;
}

int derived_port(std::string_view job) {
  // FNV-1a, 64 bits: its offset basis and its prime. All nodes must compute the same port, so
  // std::hash, which each library may define anew, will not do.
  std::uint64_t hash = 14'695'981'039'346'656'037U;
  for (const char c : job) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211U;
  }
  return derived_port(hash, 0);
}

}  // namespace ddprun
