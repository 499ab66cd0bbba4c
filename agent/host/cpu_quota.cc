#include "agent/host/cpu_quota.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace ddprun {
namespace {

std::vector<std::string_view> split(std::string_view text, std::string_view at) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(at), text.size());
    if (end > 0) {
      parts.push_back(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<long long> to_number(std::string_view word) {
  long long number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) {
    return std::nullopt;
  }
  return number;
}

std::optional<double> tighter(std::optional<double> a, std::optional<double> b) {
  if (a && b) {
    return std::min(*a, *b);
  }
  return a ? a : b;
}

}  // namespace

std::optional<double> parse_cpu_max(std::string_view text) {
  const auto words = split(text, " \n");
  return words.size() == 2 ? parse_cfs_quota(words[0], words[1]) : std::nullopt;
}

std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period) {
  const auto quota_words = split(quota, " \n");
  const auto period_words = split(period, " \n");
  if (quota_words.size() != 1 || period_words.size() != 1) {
    return std::nullopt;
  }
  const auto quota_us = to_number(quota_words[0]);
  const auto period_us = to_number(period_words[0]);
  if (!quota_us || !period_us || *quota_us <= 0 || *period_us <= 0) {
    return std::nullopt;
  }
  return static_cast<double>(*quota_us) / static_cast<double>(*period_us);
}

std::optional<double> cpu_quota(const FileReader& read) {
  std::optional<double> quota;
  for (const std::string& directory : control_group_directories(read, "")) {
    quota = tighter(quota, parse_cpu_max(read(directory + "/cpu.max").value_or("")));
  }
  for (const std::string& directory : control_group_directories(read, "cpu")) {
    quota = tighter(quota, parse_cfs_quota(read(directory + "/cpu.cfs_quota_us").value_or(""),
                                           read(directory + "/cpu.cfs_period_us").value_or("")));
  }
  return quota;
}

}  // namespace ddprun
