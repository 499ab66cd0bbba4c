// ManPage: ddprun(1) as troff source in the macros of man(7), with the options of the table and the
// codes of exit_status.h. Pure. The build writes it to a file (man_page_main.cc), and nothing reads
// it at run time.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// `version`: "0.1.0"; `date`: of the build, "2026-11-25". Ends with a newline.
std::string man_page(std::string_view version, std::string_view date);

/// Text as troff shows it unchanged: no backslash, dash, quote or leading dot is a command.
std::string troff_text(std::string_view text);

}  // namespace ddprun
