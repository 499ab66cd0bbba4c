#include "agent/output/stream_routing.h"

namespace ddprun {

StreamPlan plan_streams(const WorkerLogs& logs, const Terminals& terminals) {
  StreamPlan plan;
  if (!logs.stdout_path.empty()) {
    plan.out = StreamWay::path;
  } else if (terminals.out) {
    plan.out = StreamWay::terminal;
  }
  if (logs.stderr_path == "/dev/null") {
    plan.err = StreamWay::hidden_pipe;
  } else if (!logs.stderr_path.empty()) {
    plan.err = StreamWay::path;
  } else if (terminals.err) {
    plan.err = plan.out == StreamWay::terminal && terminals.same ? StreamWay::terminal_of_out
                                                                 : StreamWay::terminal;
  }
  return plan;
}

}  // namespace ddprun
