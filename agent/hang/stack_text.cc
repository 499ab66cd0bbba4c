// The pure part of StackCollector: which lines of a stack a person is shown.
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "agent/hang/stack_collector.h"

namespace ddprun {
namespace {

/// The handler's own frame, and the kernel's return from it.
constexpr int kHandlerFrames = 2;

std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

/// "lib.so(_ZN3ddp5trainEv+0x12) [0x7f..]" -> "lib.so ddp::train()+0x12"; others as they are.
std::string readable_frame(std::string_view line) {
  line = line.substr(0, line.rfind(" ["));
  const auto open = line.find('(');
  const auto plus = line.rfind('+');
  const auto close = line.rfind(')');
  if (open == std::string_view::npos || plus == std::string_view::npos || plus < open ||
      close == std::string_view::npos) {
    return std::string(line);
  }
  const std::string_view path = line.substr(0, open);
  const std::string module(path.substr(path.rfind('/') + 1));
  const std::string symbol(line.substr(open + 1, plus - open - 1));
  const std::string offset(line.substr(plus, close - plus));
  if (symbol.empty()) {
    return module + " " + offset;
  }
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return module + " " + (name ? name.get() : symbol.c_str()) + offset;
}

/// A line that does not fit is left out; a shorter one behind it may still fit.
void append_line(std::string& to, const std::string& line, std::size_t bytes_max) {
  if (to.size() + line.size() + 1 <= bytes_max) {
    to += line + "\n";
  }
}

}  // namespace

std::string newest_frames(std::string_view stacks, std::size_t bytes_max) {
  std::string text;
  int frame = -1;
  while (!stacks.empty()) {
    const std::string_view line = next_line(stacks);
    if (line.starts_with("thread ")) {
      // The first thread is the main one (threads_of), where training loops run.
      if (frame >= 0) {
        break;
      }
      frame = 0;
    } else if (frame++ >= kHandlerFrames) {
      append_line(text, readable_frame(line), bytes_max);
    }
  }
  return text;
}

std::string python_frames(std::string_view stderr_tail, std::size_t bytes_max) {
  // The mark of CPython's faulthandler.c; frames below it are indented by two blanks.
  const auto at = stderr_tail.rfind("(most recent call first):");
  if (at == std::string_view::npos) {
    return {};
  }
  stderr_tail.remove_prefix(at);
  next_line(stderr_tail);
  std::string text;
  while (stderr_tail.starts_with("  ")) {
    append_line(text, std::string(next_line(stderr_tail).substr(2)), bytes_max);
  }
  return text;
}

}  // namespace ddprun
