// Notice: something that is found out before there is a logger, and logged once there is one.
#pragma once

#include <string>

namespace ddprun {

/// Python's logging levels, as LOGLEVEL names them.
enum class LogLevel : unsigned char { debug, info, warning, error, critical };

struct Notice {
  LogLevel level;
  std::string text;
};

}  // namespace ddprun
