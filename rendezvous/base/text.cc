#include "rendezvous/base/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// What isspace() takes in the C locale: a user's locale must not change how lists are read.
constexpr std::string_view kWhiteSpace = " \t\n\r\f\v";

}  // namespace

/// A tenth below ten seconds, and whole seconds above: more digits are noise to people who read a
/// log. Rounded, not cut, so that a timeout of 3 s that ended after 2.99 s reads as 3 s.
std::string seconds_text(std::chrono::nanoseconds measured) {
  DDP_CHECK(measured.count() >= 0, "what was measured took no negative time");
  using std::chrono::milliseconds;
  const auto tenths = (measured + milliseconds(50)) / milliseconds(100);
  if (tenths >= 100 || tenths % 10 == 0) {
    return fmt::format("{} s", (measured + milliseconds(500)) / milliseconds(1'000));
  }
  return fmt::format("{}.{} s", tenths / 10, tenths % 10);
}

/// What a user chose comes back as it was written: 0.25 s is not 0.3 s.
std::string exact_seconds_text(std::chrono::nanoseconds chosen) {
  return fmt::format("{:g} s", std::chrono::duration<double>(chosen).count());
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
}

std::string printable(std::string text) {
  // The C1 set: some terminals take U+009B for ESC [.
  constexpr char kC1Lead = '\xc2';
  constexpr auto is_c1_rest = [](char c) {
    return (static_cast<unsigned char>(c) & 0xe0U) == 0x80U;
  };
  std::size_t end = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_c1 = text[i] == kC1Lead && i + 1 < text.size() && is_c1_rest(text[i + 1]);
    i += is_c1 ? 1 : 0;
    text[end++] = is_c1 || is_control(text[i]) ? '?' : text[i];
  }
  DDP_CHECK(end <= text.size(), "nothing becomes longer");
  text.resize(end);
  return text;
}

/// Separators in a row are one: lists are written by hand.
std::vector<std::string_view> words_of(std::string_view text, std::string_view separators) {
  DDP_CHECK(!separators.empty(), "words end somewhere");
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(separators), text.size());
    if (end > 0) {
      words.push_back(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

/// Unlike words_of() it keeps empty parts: "a,,b" has three, and the caller reports the empty one.
std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

}  // namespace ddprun
