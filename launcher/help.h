// Help: the text of --help, laid out from the table of options.
#pragma once

#include <string>

namespace ddprun {

/// At most 100 columns wide, ends with a newline.
std::string help_text();

}  // namespace ddprun
