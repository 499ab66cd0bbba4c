#include "rendezvous/base/error_line.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <vector>

#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

constexpr std::string_view kTraceback = "Traceback (most recent call last):";
constexpr std::string_view kGroup = "+ Exception Group Traceback (most recent call last):";
constexpr std::string_view kTerminate = "terminate called after throwing";
constexpr std::string_view kWhat = "what():";
constexpr std::size_t kRankBytesMax = 16;  ///< of "[rank262143"

/// PyTorch puts it in front of each line of a traceback that ends a rank.
std::string_view without_rank(std::string_view line) {
  if (line.starts_with("[rank")) {
    // Not found is a larger number than any place.
    if (const auto end = line.find("]: "); end < kRankBytesMax) {
      line.remove_prefix(end + 3);
    }
  }
  return line;
}

/// "[rank1]:[W1125 15:02:03 ProcessGroupNCCL.cpp:1553] Warning: ...", as PyTorch logs at its end.
bool is_log_of_pytorch(std::string_view line) {
  return line.starts_with("[rank") && line.find("]:[") < kRankBytesMax;
}

/// Python's own sentences between two tracebacks of one chain.
bool links(std::string_view line) {
  return line.starts_with("During handling of the above exception") ||
         line.starts_with("The above exception was the direct cause");
}

/// "ValueError: ...", "KeyboardInterrupt", "jobs.f.<locals>.Lost: ...": an exception's name, alone
/// or with a colon. Whatever else follows a traceback is none.
bool names_error(std::string_view line) {
  const auto in_name = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '<' || c == '>' || c >= 0x80;
  };
  const auto* const end = std::find_if_not(line.begin(), line.end(), in_name);
  return end != line.begin() && (end == line.end() || *end == ':');
}

/// Of Python's last chain of tracebacks: its first error, and where its last error stands.
struct Chain {
  std::string_view first;
  std::size_t end = 0;
};

/// The traceback of an ExceptionGroup has "  | " before each line, and "  + " before the first.
/// Below it stand those of its parts, indented more.
std::string_view without_bar(std::string_view line) {
  const auto text = line.find_first_not_of(' ');
  return text != std::string_view::npos && line.substr(text).starts_with("| ")
             ? line.substr(text + 2)
             : line;
}

Chain last_chain(const std::vector<std::string_view>& lines) {
  Chain chain;
  bool linked = false;
  bool in_traceback = false;
  bool in_group = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view unranked = without_rank(lines[i]);
    const std::string_view line = in_group ? without_bar(unranked) : unranked;
    if (in_group && !in_traceback) {
      const std::string_view part = trimmed(unranked);
      in_group = part.starts_with('|') || part.starts_with('+');
      if (in_group) {
        chain.end = i;
        continue;
      }
    }
    if (trimmed(line).starts_with(kGroup)) {
      in_traceback = in_group = true;
    } else if (line.starts_with(kTraceback)) {
      in_traceback = true;
    } else if (in_traceback && !line.empty() && line.front() != ' ') {
      // Frames are indented, the error is not.
      if (names_error(trimmed(line))) {
        chain = {linked && !chain.first.empty() ? chain.first : trimmed(line), i};
      }
      in_traceback = linked = false;
    } else if (links(line)) {
      linked = true;
    }
  }
  return chain;
}

}  // namespace

// A traceback wins over what the C++ runtime says: an exception that ends Python's main thread
// makes libraries abort on the way out, and not the other way round.
std::string_view error_line(std::string_view stderr_tail) {
  const std::vector<std::string_view> lines = words_of(stderr_tail, "\n\r");
  if (const Chain chain = last_chain(lines); !chain.first.empty()) {
    return chain.first;
  }
  std::string_view last;
  bool terminated = false;
  for (const std::string_view line : lines) {
    const std::string_view text = trimmed(without_rank(line));
    if (terminated && text.starts_with(kWhat)) {
      return trimmed(text.substr(kWhat.size()));
    }
    terminated = terminated || text.starts_with(kTerminate);
    last = text.empty() ? last : text;
  }
  return last;
}

bool ends_in_traceback(std::string_view stderr_tail) {
  std::vector<std::string_view> lines = words_of(trimmed(stderr_tail), "\n\r");
  std::erase_if(lines, is_log_of_pytorch);
  const Chain chain = last_chain(lines);
  return !chain.first.empty() && chain.end + 1 == lines.size();
}

}  // namespace ddprun
