#include "launcher/completion.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {

std::vector<std::string_view> completed_words(const OptionRow& row) {
  // A choice is a word whatever it looks like. In what the help calls a value, capitals stand for
  // something, and words without are themselves: N|cpu|gpu|auto.
  const bool chosen = !row.choices.empty();
  std::string_view rest = chosen ? row.choices : row.value_name;
  DDP_CHECK(!rest.empty() || is_flag(row), "what takes a value has a name for it");
  std::vector<std::string_view> words;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find('|'));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    DDP_CHECK(!word.empty(), "no bar stands beside another one");
    const bool plain = std::all_of(word.begin(), word.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    });
    if (chosen || plain) {
      words.push_back(word);
    }
  }
  return words;
}

// The help's own names for values say what they are, so that the table needs no column for it.

bool takes_file(const OptionRow& row) {
  return row.value_name == "FILE";
}

bool takes_directory(const OptionRow& row) {
  return row.value_name == "DIR";
}

/// Shells show a line for each option: the first sentence has room in it.
std::string_view summary_of(const OptionRow& row) {
  const std::string_view first = row.help.substr(0, row.help.find(". "));
  DDP_CHECK(!first.empty(), "every option has a help text");
  return first.ends_with('.') ? first.substr(0, first.size() - 1) : first;
}

std::string with_replaced(std::string_view text, std::string_view marker,
                          std::string_view replacement) {
  DDP_CHECK(!marker.empty(), "there is something to look for");
  // What was put in is not looked at again: a help text may have a marker's letters.
  std::string result;
  while (true) {
    const auto at = text.find(marker);
    result += text.substr(0, at);
    if (at == std::string_view::npos) {
      return result;
    }
    result += replacement;
    text.remove_prefix(at + marker.size());
  }
}

std::string completion_script(std::string_view shell) {
  if (shell == "bash") {
    return bash_completion();
  }
  if (shell == "zsh") {
    return zsh_completion();
  }
  DDP_CHECK(shell == "fish", "the choices of --print-completion are the shells known here");
  return fish_completion();
}

}  // namespace ddprun
