// StatusPage: the text of status_page.html, as it was when this was built: one page that asks for
// /status.json every two seconds, and for nothing else.
#pragma once

#include <string_view>

namespace ddprun {

std::string_view status_page();

}  // namespace ddprun
