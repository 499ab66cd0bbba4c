// Bash has no description of options: its script is a function that walks over the words by
// ddprun's own rules (options.h). Readline splits words at = and : too, so `--nnodes=2:4` is five
// of them, and a value goes on behind such a mark.
#include "launcher/completion.h"
#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

constexpr std::string_view kScript =
    R"(# Completion of ddprun for bash, made by `ddprun --print-completion bash`.
# Now: source <(ddprun --print-completion bash). For good: that output as
# ~/.local/share/bash-completion/completions/ddprun.

# The words for the value of option $1; the current word is $2.
_ddprun_value() {
  case ${1//_/-} in
@VALUES@    *) COMPREPLY=() ;;
  esac
}

# What Python finds in this folder for -m.
_ddprun_modules() {
  local file
  for file in *.py */__init__.py; do
    [[ -e $file ]] && printf '%s\n' "${file%%[./]*}"
  done
}

_ddprun() {
  local flags=' @FLAGS@ '
  local valued=' @VALUED@ '
  local letter_with_value='^-[@FLAG_LETTERS@]*[@VALUE_LETTERS@]$'
  local current=${COMP_WORDS[COMP_CWORD]} option= module= i=1 word name
  COMPREPLY=()
  while ((i < COMP_CWORD)); do
    word=${COMP_WORDS[i]}
    name=${word//_/-}
    option=
    if [[ $word == [:=@] ]]; then
      # The value before it goes on.
      ((i += 2))
      continue
    elif [[ $word == -- ]]; then
      ((++i))
      break
    elif [[ $word == --*=* ]]; then
      : # where = splits no words: the value is in this one
    elif [[ $word == --* ]]; then
      # A name may be shortened. What begins a flag's name, and is not a whole other one, is it.
      if [[ $valued == *" $name "* || $flags != *" $name"* ]]; then
        option=$word
      fi
      [[ --module == "$name"* && $name == --mo* ]] && module=yes
    elif [[ $word == -?* ]]; then
      [[ $word =~ $letter_with_value ]] && option=-${word: -1}
      [[ $word =~ ^-[@FLAG_LETTERS@]*m ]] && module=yes
    else
      break
    fi
    ((++i))
    if [[ $option ]]; then
      [[ ${COMP_WORDS[i]} == = ]] && ((i < COMP_CWORD)) && ((++i))
      if ((i >= COMP_CWORD)); then
        # The mark itself is the current word, right behind it.
        [[ $current == = ]] && current=
        _ddprun_value "$option" "$current"
        return
      fi
      ((++i))
    fi
  done
  # A word that goes on behind a mark: host:29400, 2:4. The marks of the walk may reach beyond it.
  if ((i > COMP_CWORD)) || [[ $current == [:=@] ]]; then
    return
  fi
  if ((i < COMP_CWORD)) && declare -F _command_offset >/dev/null; then
    _command_offset "$i"
  elif ((i < COMP_CWORD)); then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  elif [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags $valued @LETTERS@" -- "$current")
  elif [[ $module ]]; then
    word=$(_ddprun_modules)
    mapfile -t COMPREPLY < <(compgen -W "$word" -- "$current")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -c -- "$current"; compgen -f -- "$current")
  fi
}

complete -F _ddprun ddprun
)";

/// "a b c"
std::string joined(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) {
    text += (text.empty() ? "" : " ") + std::string(word);
  }
  return text;
}

/// The branch of _ddprun_value for an option that has anything to offer.
std::string branch_of(const OptionRow& row) {
  DDP_CHECK(!is_flag(row), "a flag has no value to complete");
  std::string command;
  if (takes_file(row)) {
    command = "compgen -f";
  } else if (takes_directory(row)) {
    command = "compgen -d";
  } else if (const auto words = completed_words(row); !words.empty()) {
    command = "compgen -W '" + joined(words) + "'";
  } else {
    return {};
  }
  // _ddprun_value compares names with dashes; a letter is compared as it is.
  const std::string name = "--" + std::string(row.name);
  DDP_CHECK(name.find('\'') == std::string::npos, "a name needs no quotes");
  const std::string patterns = row.letter != 0 ? name + " | -" + row.letter : name;
  const bool is_path = takes_file(row) || takes_directory(row);
  return "    " + patterns + ")\n" + (is_path ? "      compopt -o filenames 2>/dev/null\n" : "") +
         "      mapfile -t COMPREPLY < <(" + command + " -- \"$2\")\n      ;;\n";
}

}  // namespace

std::string bash_completion() {
  // Flags and options with a value are apart, since only the walk over the words knows what the
  // current word belongs to.
  std::string flags;
  std::string valued;
  std::string branches;
  std::string flag_letters;
  std::string value_letters;
  std::string letters;
  for (const OptionRow& row : option_rows()) {
    std::string& names = is_flag(row) ? flags : valued;
    names += (names.empty() ? "--" : " --") + std::string(row.name);
    if (row.letter != 0) {
      (is_flag(row) ? flag_letters : value_letters) += row.letter;
      letters += std::string(letters.empty() ? "-" : " -") + row.letter;
    }
    if (!is_flag(row)) {
      branches += branch_of(row);
    }
  }
  DDP_CHECK(!flag_letters.empty() && !value_letters.empty(), "no bracket of the pattern is empty");
  std::string script = with_replaced(kScript, "@VALUES@", branches);
  script = with_replaced(script, "@FLAGS@", flags);
  script = with_replaced(script, "@VALUED@", valued);
  script = with_replaced(script, "@FLAG_LETTERS@", flag_letters);
  script = with_replaced(script, "@VALUE_LETTERS@", value_letters);
  return with_replaced(script, "@LETTERS@", letters);
}

}  // namespace ddprun
