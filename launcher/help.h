// Help: the text of --help, laid out from the table of options.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "launcher/option_table.h"

namespace ddprun {

/// At most 100 columns wide, ends with a newline.
std::string help_text();

/// Above the options of a group.
const char* group_title(OptionGroup group);
/// Breaks at blanks, so that no line is longer than `columns` (a longer word stands alone).
std::string wrapped(std::string_view text, std::size_t columns);

}  // namespace ddprun
