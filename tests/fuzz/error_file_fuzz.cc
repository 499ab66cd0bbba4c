// Any bytes that a worker left as its error file or as the end of its stderr: a record comes out of
// it, within its bounds, and the agent's own error file can be made of that.
#include <string>

#include "agent/failure_evidence.h"
#include "agent/output/summary.h"
#include "tests/fuzz/input.h"

using namespace ddprun;
using namespace ddprun::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  WorkerEnd end;
  end.node = "n1";
  end.pid = 7;
  const std::uint8_t how = input.byte();
  end.exit = {(how & 1) != 0 ? ExitStatus::Kind::signalled : ExitStatus::Kind::exited, how >> 1};
  const std::size_t tail = input.byte();
  end.stderr_tail = input.text(tail);
  end.error_file = std::string(input.rest());
  if (!end.error_file->empty()) {
    end.error_file_path = "/tmp/error.json";
  }
  FailureRecord record = make_failure_record(std::move(end));
  require(record.message.size() <= kMessageBytesMax, "a message is bounded");
  require(record.message.find('\n') == std::string::npos, "a message is one line");
  require(record.error_file_json.size() <= kErrorFileBytesMax, "a record is bounded");

  JobSummary summary;
  summary.verdict = Verdict::failed;
  summary.incidents.push_back({});
  summary.incidents.back().records.push_back(std::move(record));
  require(!agent_error_json(summary, {}).empty(), "a failed job has an error file");
  require(!summary_text(summary, "train").empty(), "a failed job has a summary");
  return 0;
}
