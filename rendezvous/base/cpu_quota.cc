#include "rendezvous/base/cpu_quota.h"

#include <algorithm>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

std::optional<double> tighter(std::optional<double> a, std::optional<double> b) {
  if (a && b) {
    return std::min(*a, *b);
  }
  return a ? a : b;
}

}  // namespace

/// Kernel, cgroup-v2.rst: cpu.max is quota and period in microseconds, the same two numbers as in
/// version 1.
std::optional<double> parse_cpu_max(std::string_view text) {
  const auto words = words_of(text, " \n");
  return words.size() == 2 ? parse_cfs_quota(words[0], words[1]) : std::nullopt;
}

std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period) {
  const auto quota_words = words_of(quota, " \n");
  const auto period_words = words_of(period, " \n");
  if (quota_words.size() != 1 || period_words.size() != 1) {
    return std::nullopt;
  }
  const auto quota_us = parse_number<long long>(quota_words[0]);
  const auto period_us = parse_number<long long>(period_words[0]);
  // "max" (version 2) is no number and -1 (version 1) is below zero: both mean no limit.
  if (!quota_us || !period_us || *quota_us <= 0 || *period_us <= 0) {
    return std::nullopt;
  }
  const double processors = static_cast<double>(*quota_us) / static_cast<double>(*period_us);
  DDP_CHECK(processors > 0, "a limit allows some part of a processor");
  return processors;
}

std::optional<double> cpu_quota(const FileReader& read) {
  // A limit holds for the whole subtree, so the tightest on the way up counts. A mixed system has
  // the cpu controller in either hierarchy: both are read.
  std::optional<double> quota;
  for (const std::string& directory : control_group_directories(read, "")) {
    quota = tighter(quota, parse_cpu_max(read(directory + "/cpu.max").value_or("")));
  }
  for (const std::string& directory : control_group_directories(read, "cpu")) {
    quota = tighter(quota, parse_cfs_quota(read(directory + "/cpu.cfs_quota_us").value_or(""),
                                           read(directory + "/cpu.cfs_period_us").value_or("")));
  }
  DDP_CHECK(!quota || *quota > 0, "a group that may use no processor at all would not run us");
  return quota;
}

}  // namespace ddprun
