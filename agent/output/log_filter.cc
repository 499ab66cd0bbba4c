#include "agent/output/log_filter.h"

#include <algorithm>
#include <utility>

#include "agent/output/string_template.h"
#include "rendezvous/base/check.h"

namespace ddprun {

std::string line_prefix(const std::string* line_prefix_template, const std::string& role,
                        const std::string& rank, const std::string& local_rank) {
  if (line_prefix_template == nullptr) {
    return "[" + role + local_rank + "]:";
  }
  return safe_substitute(*line_prefix_template,
                         {{"role_name", role}, {"rank", rank}, {"local_rank", local_rank}});
}

LogFilter::LogFilter(std::string prefix, std::vector<std::string> filters)
    : prefix_(std::move(prefix)), filters_(std::move(filters)) {}

/// The prefix stands before the first piece of a line; a longer line goes on without it.
LogFilter::OnPiece LogFilter::prefixed(std::string& shown) const {
  return [this, &shown](const LinePiece& piece) {
    if (piece.begins) {
      shown += prefix_;
    }
    shown += piece.text;
  };
}

void LogFilter::feed(std::string_view bytes, std::string& shown, std::string& filtered) {
  feed(bytes, prefixed(shown), filtered);
}

void LogFilter::finish(std::string& shown, std::string& filtered) {
  finish(prefixed(shown), filtered);
}

void LogFilter::feed(std::string_view bytes, const OnPiece& shown, std::string& filtered) {
  while (!bytes.empty()) {
    DDP_CHECK(line_.size() < kLineBytesMax, "a full line was passed on at once");
    // Cut at the bound: a program that never ends its line (a progress bar) must not make the agent
    // grow.
    const std::size_t room = kLineBytesMax - line_.size();
    const auto newline = bytes.substr(0, room).find('\n');
    const bool ends = newline != std::string_view::npos;
    const auto piece = bytes.substr(0, ends ? newline + 1 : room);
    bytes.remove_prefix(piece.size());
    line_ += piece;
    DDP_CHECK(line_.size() <= kLineBytesMax, "a kept line is longer than its bound");
    // A piece that fills the bound leaves at once: so there is room for the next byte.
    if (ends || line_.size() == kLineBytesMax) {
      pass_on(ends, shown, filtered);
    }
  }
}

void LogFilter::finish(const OnPiece& shown, std::string& filtered) {
  release(shown, filtered);
  // The stream may go on after this, since StreamFold ends a filter's line to skip it: the next
  // byte begins a line.
  inside_line_ = false;
}

void LogFilter::release(const OnPiece& shown, std::string& filtered) {
  if (!line_.empty()) {
    pass_on(false, shown, filtered);
  }
  DDP_CHECK(line_.empty(), "what is released does not wait");
}

/// Hands on what has gathered of one line, and notes whether the line goes on.
void LogFilter::pass_on(bool ends, const OnPiece& shown, std::string& filtered) {
  DDP_CHECK(!line_.empty(), "a piece of a line has bytes");
  DDP_CHECK(!ends || line_.back() == '\n', "a line ends in its newline");
  const bool begins = !inside_line_;
  // The first piece decides; the others of the line follow it.
  if (begins) {
    matches_ = std::any_of(filters_.begin(), filters_.end(), [this](const std::string& filter) {
      return line_.find(filter) != std::string::npos;
    });
    if (matches_) {
      filtered += prefix_;
    }
  }
  shown({line_, begins, ends});
  if (matches_) {
    filtered += line_;
  }
  line_.clear();
  inside_line_ = !ends;
}

}  // namespace ddprun
