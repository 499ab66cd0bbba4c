// StreamPlan: how each standard stream of a worker reaches the console. Pure.
#pragma once

#include <cstdint>

#include "agent/output/log_layout.h"

namespace ddprun {

/// Which of the agent's own streams are terminals.
struct Terminals {
  bool out = false;
  bool err = false;
  bool same = false;  ///< both are, and it is one
};

enum class StreamWay : std::uint8_t {
  inherited,       ///< the agent's own stream
  path,            ///< the path that WorkerLogs names
  pipe,            ///< to the agent, which shows it and keeps its end
  hidden_pipe,     ///< the same without showing it
  terminal,        ///< as pipe, but a terminal to the worker
  terminal_of_out  ///< stderr: the terminal that stdout has, so that their order stays
};

struct StreamPlan {
  StreamWay out = StreamWay::inherited;
  StreamWay err = StreamWay::pipe;
};

/// Stdout that is a file or a pipe stays the agent's own: it is data (`ddprun ... | wc -l`).
StreamPlan plan_streams(const WorkerLogs& logs, const Terminals& terminals);

}  // namespace ddprun
