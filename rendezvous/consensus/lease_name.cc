#include "rendezvous/consensus/lease_name.h"

#include <sodium.h>

#include <array>

#include "rendezvous/base/check.h"
#include "rendezvous/base/dns_label.h"

namespace ddprun {
namespace {

constexpr char kPrefix[] = "ddprun-";
/// Of an id that is no label, for people.
constexpr std::size_t kReadableMax = 40;
/// Two of 2^64 jobs have the same one.
constexpr std::size_t kHashBytes = 16;

/// BLAKE2b, of all bytes of the id.
std::string hash_of(const std::string& text) {
  std::array<unsigned char, kHashBytes> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(text.data()),
                     text.size(), nullptr, 0);
  std::string hex(2 * kHashBytes + 1, '\0');
  sodium_bin2hex(hex.data(), hex.size(), hash.data(), hash.size());
  hex.pop_back();  // the NUL that it writes
  return hex;
}

/// Its letters and digits, and one hyphen for all between them.
std::string readable(const std::string& job_id) {
  std::string text;
  for (char c : job_id.substr(0, kReadableMax)) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (is_lower_alphanumeric(c)) {
      text += c;
    } else if (!text.empty() && text.back() != '-') {
      text += '-';
    }
  }
  while (!text.empty() && text.back() == '-') {
    text.pop_back();
  }
  return text.empty() ? "job" : text;
}

}  // namespace

std::string lease_name(const std::string& job_id) {
  DDP_CHECK(!job_id.empty(), "a job has a name");
  if (is_dns_label(job_id)) {
    return kPrefix + job_id;
  }
  return kPrefix + readable(job_id) + "." + hash_of(job_id);
}

}  // namespace ddprun
