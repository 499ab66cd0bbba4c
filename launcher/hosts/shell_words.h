// ShellWords: a command line taken apart, and put together, as a POSIX shell does it. Pure; no
// shell runs, so nothing in it is expanded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace ddprun {

/// Words between blanks; '...', "..." and \ quote as in the shell (POSIX, 2.2), `$` and `*` are
/// plain characters. At least one word, or an Error; one, too, for a quote that does not end.
/// `where` names the option.
Result<std::vector<std::string>> split_shell_words(std::string_view text, const std::string& where);

/// In single quotes, for a shell of any kind at the far end.
std::string shell_quoted(std::string_view word);

}  // namespace ddprun
