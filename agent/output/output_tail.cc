#include "agent/output/output_tail.h"

#include <algorithm>
#include <vector>

#include "agent/failure_evidence.h"
#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

constexpr char kEscape = '\x1b';
constexpr char kBell = '\a';
/// Kept text is cut back when it has grown to this many times what is asked for: seldom, so that
/// it costs next to nothing.
constexpr std::size_t kKeptFactor = 8;

bool in_range(char c, char first, char last) {
  return c >= first && c <= last;
}

/// Where the escape sequence that begins at `at` has ended (ECMA-48): CSI with its parameters, a
/// string (OSC, DCS, ...) up to BEL or ST, or a short one.
std::size_t after_escape(std::string_view line, std::size_t at) {
  DDP_CHECK(at < line.size() && line[at] == kEscape, "a sequence begins with its escape");
  ++at;
  if (at == line.size()) {
    return at;
  }
  const char kind = line[at];
  if (kind == '[') {
    ++at;
    // Parameter bytes (0x30 to 0x3F) and intermediate bytes (0x20 to 0x2F), then one final byte.
    while (at < line.size() && in_range(line[at], ' ', '?')) {
      ++at;
    }
    return std::min(at + 1, line.size());
  }
  // OSC, DCS, SOS, PM and APC take a string up to ST; terminals accept BEL for it, too.
  if (kind == ']' || kind == 'P' || kind == 'X' || kind == '^' || kind == '_') {
    while (at < line.size() && line[at] != kBell && line[at] != kEscape) {
      ++at;
    }
    // ST is ESC and a backslash.
    const bool two = at < line.size() && line[at] == kEscape;
    return std::min(at + (two ? 2 : 1), line.size());
  }
  while (at < line.size() && in_range(line[at], ' ', '/')) {
    ++at;
  }
  return std::min(at + 1, line.size());
}

/// A character is the trailing bytes of its UTF-8 form (10xxxxxx), and the first byte before them.
void erase_last_character(std::string& text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U) {
    text.pop_back();
  }
  if (!text.empty()) {
    text.pop_back();
  }
}

/// What has been written since the line was last begun anew.
std::string_view last_state(std::string_view line) {
  while (!line.empty() && line.back() == '\r') {
    line.remove_suffix(1);
  }
  return line.substr(line.rfind('\r') + 1);
}

/// One line, without its newline.
std::string as_shown(std::string_view line) {
  line = last_state(line);
  std::string text;
  for (std::size_t at = 0; at < line.size();) {
    const char c = line[at];
    if (c == kEscape) {
      const std::size_t after = after_escape(line, at);
      DDP_CHECK(after > at && after <= line.size(), "a sequence has bytes, and ends in its line");
      at = after;
      continue;
    }
    if (c == '\b') {
      erase_last_character(text);
    } else if (c == '\t' || !(in_range(c, '\0', '\x1f') || c == '\x7f')) {
      text += c;
    }
    ++at;
  }
  return text;
}

}  // namespace

std::string shown_tail(std::string_view text, std::size_t bytes_max) {
  // From the end, until there is enough: what is thrown away is not looked at.
  std::vector<std::string> lines;
  std::size_t size = 0;
  bool ended = !text.empty() && text.back() == '\n';
  while (!text.empty() && size <= bytes_max) {
    text.remove_suffix(ended ? 1 : 0);
    const auto begin = text.rfind('\n') + 1;
    lines.push_back(as_shown(text.substr(begin)) + (ended ? "\n" : ""));
    size += lines.back().size();
    text = text.substr(0, begin);
    ended = true;
  }
  std::string all;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    all += *line;
  }
  std::string tail = last_lines(all, bytes_max);
  DDP_CHECK(tail.size() <= bytes_max, "a tail fits where it goes");
  return tail;
}

void OutputTail::append(std::string_view bytes) {
  const std::size_t kept_max = kKeptFactor * bytes_max_;
  // More than is kept comes at once: what was kept before scrolls away.
  if (bytes.size() > kept_max) {
    kept_ = last_lines(bytes, kept_max);
    return;
  }
  kept_ += bytes;
  if (kept_.size() <= kept_max) {
    return;
  }
  // The line that goes on keeps its bytes: its last escape sequence may not have ended yet.
  const std::string_view all = kept_;
  const auto begin = all.rfind('\n') + 1;
  const std::string_view open = all.substr(begin);
  const std::string_view state =
      open.substr(static_cast<std::size_t>(last_state(open).data() - open.data()));
  kept_ = shown_tail(all.substr(0, begin), bytes_max_) + last_lines(state, kept_max / 2);
  DDP_CHECK(kept_.size() <= kept_max, "what is kept of any output is bounded");
}

}  // namespace ddprun
