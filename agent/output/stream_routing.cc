#include "agent/output/stream_routing.h"

#include "rendezvous/base/check.h"

namespace ddprun {

StreamPlan plan_streams(const WorkerLogs& logs, const Terminals& terminals) {
  StreamPlan plan;
  // The table of docs/logs.md, row by row. stdout is data where it is no terminal: no agent stands
  // between.
  if (!logs.stdout_path.empty()) {
    plan.out = StreamWay::path;
  } else if (terminals.out) {
    plan.out = StreamWay::terminal;
  }
  // A rank off --local-ranks-filter is not shown, but the report of its failure needs its last
  // lines.
  if (logs.stderr_path == "/dev/null") {
    plan.err = StreamWay::hidden_pipe;
  } else if (!logs.stderr_path.empty()) {
    plan.err = StreamWay::path;
  } else if (terminals.err) {
    plan.err = plan.out == StreamWay::terminal && terminals.same ? StreamWay::terminal_of_out
                                                                 : StreamWay::terminal;
  }
  DDP_CHECK(plan.err != StreamWay::terminal_of_out || plan.out == StreamWay::terminal,
            "stderr shares only a terminal that stdout has");
  DDP_CHECK(plan.out != StreamWay::pipe && plan.out != StreamWay::hidden_pipe,
            "stdout is data, and never a pipe to the agent");
  return plan;
}

}  // namespace ddprun
