#include "agent/log_filter.h"

#include <algorithm>
#include <utility>

#include "agent/string_template.h"
#include "rendezvous/base/check.h"

namespace ddprun {

std::string line_prefix(const std::string* line_prefix_template, const std::string& role, int rank,
                        int local_rank) {
  if (line_prefix_template == nullptr) {
    return "[" + role + std::to_string(local_rank) + "]:";
  }
  return safe_substitute(*line_prefix_template, {{"role_name", role},
                                                 {"rank", std::to_string(rank)},
                                                 {"local_rank", std::to_string(local_rank)}});
}

LogFilter::LogFilter(std::string prefix, std::vector<std::string> filters)
    : prefix_(std::move(prefix)), filters_(std::move(filters)) {}

void LogFilter::feed(std::string_view bytes, std::string& shown, std::string& filtered) {
  while (!bytes.empty()) {
    const std::size_t room = kLineBytesMax - line_.size();
    const auto newline = bytes.substr(0, room).find('\n');
    const bool ends = newline != std::string_view::npos;
    const auto piece = bytes.substr(0, ends ? newline + 1 : room);
    bytes.remove_prefix(piece.size());
    line_ += piece;
    DDP_CHECK(line_.size() <= kLineBytesMax, "a kept line is longer than its bound");
    if (ends || line_.size() == kLineBytesMax) {
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
