// Zsh's _arguments takes a line for each option, and completes names, values and what follows the
// program by itself (zshcompsys(1)).
#include "launcher/completion.h"
#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

constexpr std::string_view kBegin = R"(#compdef ddprun
# Completion of ddprun for zsh, made by `ddprun --print-completion zsh`.
# Now: source <(ddprun --print-completion zsh). For good: that output as a file _ddprun in a folder
# of $fpath.

_ddprun_program() {
  if ((${words[1,CURRENT-1][(I)-[^-]#m|--mod*]})); then
    # What Python finds in this folder.
    compadd -- *.py(N:r) */__init__.py(N:h)
    return
  fi
  _alternative 'commands:command:_command_names -e' 'files:file:_files'
}

_ddprun() {
  _arguments -s -S \
)";

// The first line of this comes where the program's name is expected; then options are over.
constexpr std::string_view kEnd = R"(    '(-)1:program:_ddprun_program' \
    '*::arguments:_normal'
}

# As a file of $fpath it runs for each completion; sourced, it only registers.
if [[ $funcstack[1] == _ddprun ]]; then
  _ddprun "$@"
else
  compdef _ddprun ddprun
fi
)";

/// ":N|cpu|gpu|auto:(cpu gpu auto)"
std::string value_of(const OptionRow& row) {
  if (is_flag(row)) {
    return {};
  }
  DDP_CHECK(!row.value_name.empty(), "an option with a value has a name for it");
  // Two colons: what the value is, then what is offered for it.
  std::string action = " ";  // a message, and nothing to offer
  if (takes_file(row)) {
    action = "_files";
  } else if (takes_directory(row)) {
    action = "_files -/";
  } else if (const auto words = completed_words(row); !words.empty()) {
    action = "(";
    for (const std::string_view word : words) {
      action += (action.size() > 1 ? " " : "") + std::string(word);
    }
    action += ')';
  }
  return ":" + in_zsh_quotes(row.value_name, ":\\") + ":" + action;
}

}  // namespace

std::string in_zsh_quotes(std::string_view text, std::string_view marks) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
      continue;
    }
    if (marks.find(c) != std::string_view::npos) {
      result += '\\';
    }
    result += c;
  }
  return result;
}

std::string zsh_completion() {
  std::string script(kBegin);
  for (const OptionRow& row : option_rows()) {
    const std::string name = "--" + std::string(row.name);
    const std::string rest = "[" + in_zsh_quotes(summary_of(row), "[]:\\") + "]" + value_of(row);
    const std::string letter = row.letter != 0 ? std::string("-") + row.letter : std::string();
    // In front stand the names that exclude this one: an option is offered once.
    // A list adds up, so it may come again. `=`: behind the name or in the next word; `+` so too.
    const std::string again = row.adds_up ? "*" : "";
    const std::string others = letter.empty() ? "" : "(" + letter + " " + name + ")";
    DDP_CHECK(again.empty() || others.empty(), "no list has a letter");
    script += "    '" + again + others + name + (is_flag(row) ? "" : "=") + rest + "' \\\n";
    if (!letter.empty()) {
      script += "    '" + others + letter + (is_flag(row) ? "" : "+") + rest + "' \\\n";
    }
  }
  DDP_CHECK(script.size() > kBegin.size(), "there are options");
  return script + std::string(kEnd);
}

}  // namespace ddprun
