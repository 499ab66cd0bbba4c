// WarmScript: the text of warm_worker.py, as it was when this was built.
#pragma once

#include <string_view>

namespace ddprun {

std::string_view warm_script();

}  // namespace ddprun
