#include "launcher/hosts/shell_words.h"

#include <optional>
#include <utility>

#include "launcher/list_options.h"
#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

/// Within double quotes a backslash quotes these alone; before others it stays.
bool is_quoted_in_double(char c) {
  return c == '\\' || c == '"' || c == '$' || c == '`';
}

}  // namespace

Result<std::vector<std::string>> split_shell_words(std::string_view text,
                                                   const std::string& where) {
  std::vector<std::string> words;
  std::optional<std::string> word;  // '' is a word, too
  char quote = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    // A backslash at the very end quotes nothing, and stays.
    const bool has_next = at + 1 < text.size();
    if (quote == 0 && kBlanks.find(c) != std::string_view::npos) {
      if (auto ended = std::exchange(word, std::nullopt)) {
        words.push_back(*std::move(ended));
      }
      continue;
    }
    // Any other character begins a word or goes on with one, a quote too: it may quote nothing.
    if (!word) {
      word.emplace();
    }
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && has_next &&
               (quote == 0 || (quote == '"' && is_quoted_in_double(text[at + 1])))) {
      *word += text[++at];
    } else {
      *word += c;
    }
  }
  if (quote != 0) {
    return Error{"a " + std::string(1, quote) + " in " + in_quotes(text) + " does not end", where,
                 "close the quote"};
  }
  if (word) {
    words.push_back(*std::move(word));
  }
  if (words.empty() || words.front().empty()) {
    return Error{in_quotes(text) + " names no program", where, "write for example 'ssh -p 2222'"};
  }
  DDP_CHECK(words.size() <= text.size(), "each word has a character or a quote");
  return words;
}

std::string shell_quoted(std::string_view word) {
  // Within single quotes a shell changes nothing, and a single quote cannot stand there: the quotes
  // end, one that is quoted by a backslash follows, and they begin again.
  std::string text = "'";
  for (const char c : word) {
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  text += "'";
  DDP_CHECK(text.size() >= word.size() + 2, "nothing of the word is lost");
  return text;
}

}  // namespace ddprun
