// ScaleUp: when a job takes in nodes that come while it runs.
#pragma once

#include <cstdint>

namespace ddprun {

/// When a node that joins a running job below its maximum becomes one of it.
enum class ScaleUp : std::uint8_t {
  now,          ///< all workers are stopped at once
  at_snapshot,  ///< all save first, where they obey orders; else now
  never,        ///< it is a spare
};

}  // namespace ddprun
