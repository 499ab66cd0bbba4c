#include "trainer/text/word_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/core.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <string>

#include "ddp/error.h"

namespace ddp {
namespace {

/// Unicode's White_Space. PCRE2's own \s also takes U+180E, which Unicode took out in version 6.3.
#define WHITE_SPACE                                                                     \
  R"(\x{09}-\x{0d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f})" \
  R"(\x{205f}\x{3000})"

constexpr char kPattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{L}\p{N})" WHITE_SPACE R"(]+|[)" WHITE_SPACE
    R"(]+(?![^)" WHITE_SPACE R"(])|[)" WHITE_SPACE R"(]+)";

bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

bool is_ascii_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/// Whether the character that ends at the end of `text` is white space. Each form of more than one
/// byte begins with its own first byte, so nothing else ends in it.
bool ends_in_space(std::string_view text) {
  constexpr std::string_view kLong[] = {"\u0085", "\u00a0", "\u1680", "\u2028",
                                        "\u2029", "\u202f", "\u205f", "\u3000"};
  if (is_ascii(text.back())) {
    return is_ascii_space(text.back());
  }
  // U+2000 to U+200A, the spaces of typography.
  const bool en_quad_to_hair_space = text.size() >= 3 &&
                                     text.substr(text.size() - 3, 2) == "\xE2\x80" &&
                                     static_cast<unsigned char>(text.back()) <= 0x8A;
  return en_quad_to_hair_space ||
         std::any_of(std::begin(kLong), std::end(kLong),
                     [&](std::string_view space) { return text.ends_with(space); });
}

}  // namespace

struct WordSplitter::Impl {
  Impl() {
    int problem = 0;
    PCRE2_SIZE at = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kPattern), sizeof kPattern - 1,
                         PCRE2_UTF | PCRE2_ANCHORED, &problem, &at, nullptr);
    if (code != nullptr) {
      match = pcre2_match_data_create(1, nullptr);
      // Where the system forbids memory that is writable and executable there is no such code;
      // pcre2_match() then interprets the pattern.
      pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    }
    if (match == nullptr) {
      std::array<PCRE2_UCHAR, 120> reason{};
      pcre2_get_error_message(problem, reason.data(), reason.size());
      pcre2_code_free(code);
      throw Error(std::string("the PCRE2 library refuses GPT-2's pattern: ") +
                  reinterpret_cast<const char*>(reason.data()));
    }
  }
  ~Impl() {
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  pcre2_code* code = nullptr;
  pcre2_match_data* match = nullptr;
};

WordSplitter::WordSplitter() : impl_(std::make_unique<Impl>()) {}
WordSplitter::~WordSplitter() = default;

std::size_t WordSplitter::word_end(std::string_view text, std::size_t first) {
  // Most words of most texts, without the library: letters of ASCII, perhaps behind a blank, and
  // then something of ASCII that is none. The pattern's first matching part takes the same.
  const std::size_t letters = first + (text[first] == ' ' ? 1 : 0);
  std::size_t end = letters;
  while (end < text.size() && is_ascii_letter(text[end])) {
    ++end;
  }
  if (end > letters && (end == text.size() || is_ascii(text[end]))) {
    return end;
  }
  const int found = pcre2_match(impl_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                first, PCRE2_NO_UTF_CHECK, impl_->match, nullptr);
  if (found < 0) {
    throw Error(
        fmt::format("the PCRE2 library cannot split a text of {} bytes at byte {}: error {}",
                    text.size(), first, found));
  }
  return pcre2_get_ovector_pointer(impl_->match)[1];
}

std::size_t safe_cut(std::string_view text, std::size_t limit) {
  const auto safe = [&](std::size_t at) {
    return is_ascii_space(text[at]) && !ends_in_space(text.substr(0, at));
  };
  if (text.size() <= limit) {
    return text.size();
  }
  for (std::size_t at = limit; at > 0; --at) {
    if (safe(at)) {
      return at;
    }
  }
  for (std::size_t at = limit + 1; at < text.size(); ++at) {
    if (safe(at)) {
      return at;
    }
  }
  return text.size();
}

}  // namespace ddp
