// Fish takes a `complete` command for each option. Its own __fish_complete_subcommand completes
// what follows the program, once it is told which options take a value.
#include "launcher/completion.h"
#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

constexpr std::string_view kBegin =
    R"(# Completion of ddprun for fish, made by `ddprun --print-completion fish`.
# Now: ddprun --print-completion fish | source. For good: that output as
# ~/.config/fish/completions/ddprun.fish.

set -g __ddprun_valued @VALUED@

# Whether the program is not named yet: an option after it is the program's own.
function __ddprun_before_program
    set -l words (commandline -opc)
    set -e words[1]
    set -l is_value no
    for word in $words
        if test $is_value = yes
            set is_value no
        else if test "$word" = --
            return 1
        else if contains -- (string replace -a _ - -- $word) $__ddprun_valued
            set is_value yes
        else if not string match -q -- '-*' $word
            return 1
        end
    end
    return 0
end

# Whether Python is to find the program by its module's name.
function __ddprun_before_module
    set -l words (commandline -opc)
    begin; contains -- -m $words; or contains -- --module $words; end; and __ddprun_before_program
end

function __ddprun_modules
    string replace -r '(/__init__)?\.py$' '' -- *.py */__init__.py
end

complete -c ddprun -n __ddprun_before_module -x -a '(__ddprun_modules)'
complete -c ddprun -n 'not __ddprun_before_module' -x \
    -a '(__fish_complete_subcommand $__ddprun_valued)'
)";

/// -x: a value follows that is no file; -r -F: one that is a file.
std::string line_of(const OptionRow& row) {
  std::string line = "complete -c ddprun -n __ddprun_before_program";
  if (row.letter != 0) {
    line += std::string(" -s ") + row.letter;
  }
  line += " -l " + std::string(row.name);
  if (takes_file(row)) {
    line += " -r -F";
  } else if (takes_directory(row)) {
    line += " -x -a '(__fish_complete_directories)'";
  } else if (!is_flag(row)) {
    line += " -x";
    std::string offered;
    for (const std::string_view word : completed_words(row)) {
      // A tab ends the word. Without it fish shows the option's description beside each value, and
      // `static` would be "c10d: nodes come and go".
      offered += (offered.empty() ? "" : " ") + std::string(word) + "\\t";
    }
    DDP_CHECK(offered.find('\'') == std::string::npos, "a word of the table needs no escapes");
    line += offered.empty() ? "" : " -a '" + offered + "'";
  }
  return line + " -d '" + in_fish_quotes(summary_of(row)) + "'\n";
}

}  // namespace

/// Within single quotes fish reads these two marks only.
std::string in_fish_quotes(std::string_view text) {
  return with_replaced(with_replaced(text, "\\", "\\\\"), "'", "\\'");
}

std::string fish_completion() {
  // __fish_complete_subcommand takes words from -- on for options of its own, up to the first other
  // one: letters come first.
  std::string letters;
  std::string names;
  std::string lines;
  for (const OptionRow& row : option_rows()) {
    if (!is_flag(row)) {
      names += " --" + std::string(row.name);
      letters += row.letter != 0 ? std::string(letters.empty() ? "-" : " -") + row.letter : "";
    }
    lines += line_of(row);
  }
  DDP_CHECK(letters.starts_with('-'), "an option with a value has a letter");
  return with_replaced(kBegin, "@VALUED@", letters + names) + lines;
}

}  // namespace ddprun
