// A program of the build: what is told of `train` outside of its own --help, made from its own
// options. usage: train_reference man|bash|zsh|fish
//   man              the part OPTIONS of train(1), in the macros of man(7)
//   bash, zsh, fish  the completion of that shell
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/completion.h"
#include "launcher/help.h"
#include "launcher/man_page.h"
#include "rendezvous/base/check.h"
#include "trainer/command_line.h"

namespace {

using ddprun::troff_text;

/// A command or an argument of a command, as the page and the shells name it.
struct Argument {
  std::string name;  ///< "batch-size", or "total_epochs" where the place says which it is
  std::vector<std::string> aliases = {};  ///< but for underscores in place of dashes
  std::string letter;                     ///< empty: none
  std::string value;                      ///< "N"; empty for a flag
  std::string help;                       ///< in one line
  bool by_place = false;
};

/// Help texts break lines by themselves, for --help.
std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// " Not with --export, --data."
std::string listed(std::string_view before, const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) {
    names.push_back("--" + option->get_lnames().front());
  }
  std::sort(names.begin(), names.end());  // the set is in the order of addresses
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? std::string(before) : ", ") + name;
  }
  return text.empty() ? text : text + ".";
}

Argument argument_of(const CLI::Option& option) {
  Argument argument;
  argument.by_place = !option.nonpositional();
  argument.name =
      argument.by_place ? option.get_name(true) : std::string(option.get_lnames().front());
  std::copy_if(option.get_lnames().begin(), option.get_lnames().end(),
               std::back_inserter(argument.aliases), [&](const std::string& name) {
                 return name != argument.name && name.find('_') == std::string::npos;
               });
  argument.letter = option.get_snames().empty() ? "" : option.get_snames().front();
  argument.value = option.get_items_expected_max() == 0 ? "" : option.get_type_name();
  argument.help = in_one_line(option.get_description());
  if (!option.get_default_str().empty()) {
    argument.help += " [" + option.get_default_str() + "]";
  }
  const auto more =
      listed(" Needs ", option.get_needs()) + listed(" Not with ", option.get_excludes());
  argument.help += more.empty() ? "" : "." + more;
  return argument;
}

std::vector<Argument> arguments_of(const CLI::App& command) {
  std::vector<Argument> arguments;
  for (const CLI::Option* option : command.get_options()) {
    arguments.push_back(argument_of(*option));
  }
  DDP_CHECK(!arguments.empty(), "every command has --help");
  return arguments;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// A shell shows a line: what stands before the first mark that begins something more.
std::string summary(const std::string& help) {
  return help.substr(0, std::min({help.find("; "), help.find(". "), help.find(" ["), help.size()}));
}

// The help's own names for values say what they are.

bool names_file(const Argument& argument) {
  return argument.value == "FILE" || argument.value == "PATH";
}

bool names_folder(const Argument& argument) {
  return argument.value == "DIR";
}

// ---- man

std::string section_of(const CLI::App& command) {
  const std::string name = "train " + command.get_name();
  std::string text = ".SS " + troff_text(name) + "\n" +
                     ddprun::wrapped(troff_text(in_one_line(command.get_description())), 78) + "\n";
  for (const Argument& argument : arguments_of(command)) {
    text += ".TP\n";
    if (argument.by_place) {
      text += "\\fI" + troff_text(argument.name) + "\\fR\n";
    } else {
      text += argument.letter.empty() ? "" : "\\fB\\-" + argument.letter + "\\fR, ";
      text += "\\fB\\-\\-" + troff_text(argument.name) + "\\fR";
      for (const std::string& alias : argument.aliases) {
        text += ", \\fB\\-\\-" + troff_text(alias) + "\\fR";
      }
      text += argument.value.empty() ? "\n" : " \\fI" + troff_text(argument.value) + "\\fR\n";
    }
    text += ddprun::wrapped(troff_text(argument.help), 78) + "\n";
  }
  return text;
}

std::string man_part(const CLI::App& app) {
  std::string text;
  for (const CLI::App* command : commands_of(app)) {
    text += section_of(*command);
  }
  return text;
}

// ---- completions

constexpr std::string_view kBash = R"(# Completion of train for bash.
_train() {
  local current=${COMP_WORDS[COMP_CWORD]} command= word
  local names='--help --version @COMMANDS@' files= folders= values=
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in
@CASES@    esac
  done
  COMPREPLY=()
  # Readline makes a word of the = before a value.
  [[ $current == = ]] && current=
  word=${COMP_WORDS[COMP_CWORD - 1]}
  [[ $word == = ]] && word=${COMP_WORDS[COMP_CWORD - 2]}
  word=" ${word//_/-} "
  if [[ " $files " == *"$word"* ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  elif [[ " $folders " == *"$word"* ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -d -- "$current")
  elif [[ " $values " != *"$word"* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$names" -- "$current")
  fi
}

complete -F _train train
)";

/// "--data --model -m"; those alone for which `counts` holds.
template <class Predicate>
std::string names(const CLI::App& command, const Predicate& counts) {
  std::string text;
  for (const Argument& argument : arguments_of(command)) {
    if (!argument.by_place && counts(argument)) {
      text += (text.empty() ? "--" : " --") + argument.name;
      for (const std::string& alias : argument.aliases) {
        text += " --" + alias;
      }
      text += argument.letter.empty() ? "" : " -" + argument.letter;
    }
  }
  return text;
}

std::string bash_completion(const CLI::App& app) {
  std::string commands;
  std::string cases;
  for (const CLI::App* command : commands_of(app)) {
    commands += (commands.empty() ? "" : " ") + command->get_name();
    const auto list = [&](const char* variable, const auto& counts) {
      cases += "        " + std::string(variable) + "='" + names(*command, counts) + "'\n";
    };
    cases += "      " + command->get_name() + ")\n";
    list("names", [](const Argument&) { return true; });
    list("files", names_file);
    list("folders", names_folder);
    list("values",
         [](const Argument& a) { return !a.value.empty() && !names_file(a) && !names_folder(a); });
    cases += "        break ;;\n";
  }
  return ddprun::with_replaced(ddprun::with_replaced(kBash, "@COMMANDS@", commands), "@CASES@",
                               cases);
}

constexpr std::string_view kZsh = R"(#compdef train
# Completion of train for zsh.
_train() {
  local context state line
  local -a commands
  commands=(@COMMANDS@)
  _arguments -C '(- *)'{-h,--help}'[show help]' '(- *)--version[show the version]' \
    '1: :->command' '*:: :->rest' && return
  case $state in
    command) _describe command commands ;;
    rest)
      case $line[1] in
@CASES@      esac
      ;;
  esac
}

_train "$@"
)";

std::string in_zsh(std::string_view text) {
  return ddprun::in_zsh_quotes(text, "[]:\\");
}

std::string zsh_argument(const Argument& argument) {
  const std::string action = names_file(argument)     ? ":_files"
                             : names_folder(argument) ? ":_files -/"
                                                      : ": ";
  if (argument.by_place) {
    return "':" + in_zsh(argument.name) + action + "'";
  }
  // With =, the value may stand in the same word, too.
  const std::string equals = argument.value.empty() ? "" : "=";
  std::vector<std::string> names = {"--" + argument.name};
  for (const std::string& alias : argument.aliases) {
    names.push_back("--" + alias);
  }
  const std::string value = argument.value.empty() ? "" : ":" + in_zsh(argument.value) + action;
  const std::string rest = "[" + in_zsh(summary(argument.help)) + "]" + value + "'";
  if (argument.letter.empty() && names.size() == 1) {
    return "'" + names.front() + equals + rest;
  }
  std::string excluded = argument.letter.empty() ? "" : "-" + argument.letter;
  std::string all = excluded;
  for (const std::string& name : names) {
    excluded += (excluded.empty() ? "" : " ") + name;
    all += (all.empty() ? "" : ",") + name + equals;
  }
  return "'(" + excluded + ")'{" + all + "}'" + rest;
}

std::string zsh_completion(const CLI::App& app) {
  std::string commands;
  std::string cases;
  for (const CLI::App* command : commands_of(app)) {
    commands += (commands.empty() ? "'" : " '") + command->get_name() + ":" +
                in_zsh(summary(in_one_line(command->get_description()))) + "'";
    cases += "        " + command->get_name() + ")\n          _arguments -s";
    for (const Argument& argument : arguments_of(*command)) {
      cases += " \\\n            " + zsh_argument(argument);
    }
    cases += "\n          ;;\n";
  }
  return ddprun::with_replaced(ddprun::with_replaced(kZsh, "@COMMANDS@", commands), "@CASES@",
                               cases);
}

std::string fish_completion(const CLI::App& app) {
  std::string text =
      "# Completion of train for fish.\ncomplete -c train -f\n"
      "complete -c train -n __fish_use_subcommand -l help -s h -d 'Show help'\n"
      "complete -c train -n __fish_use_subcommand -l version -d 'Show the version'\n";
  for (const CLI::App* command : commands_of(app)) {
    const std::string name = command->get_name();
    text += "complete -c train -n __fish_use_subcommand -a " + name + " -d '" +
            ddprun::in_fish_quotes(summary(in_one_line(command->get_description()))) + "'\n";
    for (const Argument& argument : arguments_of(*command)) {
      if (argument.by_place) {
        continue;  // it is a number
      }
      text += "complete -c train -n '__fish_seen_subcommand_from " + name + "' -l " + argument.name;
      text += argument.letter.empty() ? "" : " -s " + argument.letter;
      for (const std::string& alias : argument.aliases) {
        text += " -l " + alias;
      }
      text += argument.value.empty()   ? ""
              : names_file(argument)   ? " -r -F"
              : names_folder(argument) ? " -x -a '(__fish_complete_directories)'"
                                       : " -x";
      text += " -d '" + ddprun::in_fish_quotes(summary(argument.help)) + "'\n";
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const ddp::CommandLine line;
  const std::string_view kind = argc == 2 ? argv[1] : "";
  const std::string text = kind == "man"    ? man_part(line.app)
                           : kind == "bash" ? bash_completion(line.app)
                           : kind == "zsh"  ? zsh_completion(line.app)
                           : kind == "fish" ? fish_completion(line.app)
                                            : "";
  if (text.empty()) {
    std::fputs("usage: train_reference man|bash|zsh|fish\n", stderr);
    return 2;
  }
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0
             ? 0
             : 1;
}
