// Completion: the scripts that make a shell complete ddprun's command line, made from the table of
// options and from nothing else. Pure.
//
// An option's value is completed by what the table says of it: its choices; files for a value that
// the help calls FILE and directories for DIR; the plain words in a name such as c10d|static. At
// the first word that is neither an option nor a value comes the program, a command or a file, and
// after it the program's own completion takes over.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/option_table.h"

namespace ddprun {

/// `shell` is one of the choices of --print-completion. Ends with a newline.
std::string completion_script(std::string_view shell);

/// The words that a value is completed with; empty where the table knows none.
std::vector<std::string_view> completed_words(const OptionRow& row);
bool takes_file(const OptionRow& row);
bool takes_directory(const OptionRow& row);
/// The first sentence of the help, without its end: what a shell shows beside an option.
std::string_view summary_of(const OptionRow& row);
/// Every `marker` of `text` replaced.
std::string with_replaced(std::string_view text, std::string_view marker,
                          std::string_view replacement);

/// Text for within single quotes of a shell; of zsh's with a backslash before those of `marks`,
/// which _arguments and _describe would read.
std::string in_zsh_quotes(std::string_view text, std::string_view marks);
std::string in_fish_quotes(std::string_view text);

/// One for each shell.
std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace ddprun
