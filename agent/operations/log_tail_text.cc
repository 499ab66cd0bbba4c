#include "agent/operations/log_tail_text.h"

#include <algorithm>
#include <string_view>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// Where this line of UTF-8 is cut: before a character, never within one.
std::string_view shortened(std::string_view line) {
  if (line.size() <= kLogTailLineBytesMax) {
    return line;
  }
  std::size_t end = kLogTailLineBytesMax;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  return line.substr(0, end);
}

/// How many lines each stream shows. One line goes round at a time, from the first rank on, until
/// nothing is left to show or no room for it: a worker that writes much hides no other.
std::vector<std::size_t> shares(const std::vector<std::vector<std::string_view>>& lines,
                                std::size_t lines_max) {
  std::vector<std::size_t> shown(lines.size(), 0);
  std::size_t left = lines_max;
  for (bool gave = true; gave && left > 0;) {
    gave = false;
    for (std::size_t i = 0; i < lines.size() && left > 0; ++i) {
      if (shown[i] < lines[i].size()) {
        ++shown[i];
        --left;
        gave = true;
      }
    }
  }
  return shown;
}

}  // namespace

/// Rank by rank: the streams have no common order, for a worker's lines have no times.
std::string log_tail_text(const std::vector<StreamTail>& streams, std::size_t lines_max) {
  std::vector<std::vector<std::string_view>> lines;
  lines.reserve(streams.size());
  for (const StreamTail& stream : streams) {
    lines.push_back(words_of(stream.text, "\n"));  // without empty lines
  }
  const std::vector<std::size_t> shown = shares(lines, lines_max);
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    DDP_CHECK(shown[i] <= lines[i].size(), "no more lines are shown than there are");
    const std::string prefix =
        "[rank " + std::to_string(streams[i].rank) + " " + streams[i].stream + "] ";
    for (std::size_t line = lines[i].size() - shown[i]; line < lines[i].size(); ++line) {
      text += prefix + printable(std::string(shortened(lines[i][line]))) + "\n";
    }
  }
  DDP_CHECK(std::count(text.begin(), text.end(), '\n') <= static_cast<std::ptrdiff_t>(lines_max),
            "a line is one line");
  return text;
}

}  // namespace ddprun
