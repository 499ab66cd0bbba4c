#include "agent/log_filter.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

void replace_all(std::string& text, std::string_view from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

std::string line_prefix(const std::string* line_prefix_template, const std::string& role, int rank,
                        int local_rank) {
  if (line_prefix_template == nullptr) {
    return "[" + role + std::to_string(local_rank) + "]:";
  }
  std::string prefix = *line_prefix_template;
  replace_all(prefix, "${role_name}", role);
  replace_all(prefix, "${local_rank}", std::to_string(local_rank));
  replace_all(prefix, "${rank}", std::to_string(rank));
  return prefix;
}

LogFilter::LogFilter(std::string prefix, std::vector<std::string> filters)
    : prefix_(std::move(prefix)), filters_(std::move(filters)) {}

void LogFilter::feed(std::string_view bytes, std::string& shown, std::string& filtered) {
  while (!bytes.empty()) {
    const auto newline = bytes.find('\n');
    const bool ends = newline != std::string_view::npos;
    const auto piece = bytes.substr(0, ends ? newline + 1 : bytes.size());
    bytes.remove_prefix(piece.size());
    line_ += piece;
    if (ends || line_.size() >= kLineBytesMax) {
      pass_on(shown, filtered);
      inside_long_line_ = !ends;
    }
  }
}

void LogFilter::finish(std::string& shown, std::string& filtered) {
  if (!line_.empty()) {
    pass_on(shown, filtered);
  }
  inside_long_line_ = false;
}

void LogFilter::pass_on(std::string& shown, std::string& filtered) {
  if (!inside_long_line_) {
    matches_ = std::any_of(filters_.begin(), filters_.end(), [this](const std::string& filter) {
      return line_.find(filter) != std::string::npos;
    });
    shown += prefix_;
    if (matches_) {
      filtered += prefix_;
    }
  }
  shown += line_;
  if (matches_) {
    filtered += line_;
  }
  line_.clear();
}

}  // namespace ddprun
