// SingleProcessGroup: the group of a world of one. Every collective is a copy at most.
#pragma once

#include <memory>

#include "ddp/process_group.h"

namespace ddp {

std::unique_ptr<ProcessGroup> make_alone_process_group();

}  // namespace ddp
