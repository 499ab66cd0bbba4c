#include "agent/output/stream_routing.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace ddprun;

TEST_CASE("how a worker's streams reach the console", "[agent]") {
  using W = StreamWay;
  struct Row {
    const char* what;
    const char* stdout_path;
    const char* stderr_path;
    Terminals terminals;
    W out;
    W err;
  };
  const Terminals none{};
  const Terminals one{true, true, true};
  const std::vector<Row> rows = {
      {"no terminal: stdout is data", "", "", none, W::inherited, W::pipe},
      {"files stay files", "/l/out", "/l/err", one, W::path, W::path},
      {"one terminal for both keeps their order", "", "", one, W::terminal, W::terminal_of_out},
      {"two terminals", "", "", {true, true, false}, W::terminal, W::terminal},
      {"2>file", "", "", {true, false, false}, W::terminal, W::pipe},
      {"| wc -l", "", "", {false, true, false}, W::inherited, W::terminal},
      {"-r 1 on a terminal", "/l/out", "", one, W::path, W::terminal},
      {"-r 2 on a terminal", "", "/l/err", one, W::terminal, W::path},
      {"a rank that is not shown", "/dev/null", "/dev/null", one, W::path, W::hidden_pipe},
      {"the same without a terminal", "/dev/null", "/dev/null", none, W::path, W::hidden_pipe},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    WorkerLogs logs;
    logs.stdout_path = row.stdout_path;
    logs.stderr_path = row.stderr_path;
    const StreamPlan plan = plan_streams(logs, row.terminals);
    CHECK(plan.out == row.out);
    CHECK(plan.err == row.err);
  }
}
