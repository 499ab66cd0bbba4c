// AttemptOutput: the way of all workers' output of one attempt: to files, through pipes and
// terminals to the consoles, folded there, and the last lines of each kept. What goes where is
// decided by LogLayout and StreamPlan.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/job_spec.h"
#include "agent/output/console.h"
#include "agent/output/filtered_log.h"
#include "agent/output/folded_console.h"
#include "agent/output/log_layout.h"
#include "agent/output/log_tailer.h"
#include "agent/output/output_pump.h"
#include "agent/output/output_tail.h"
#include "agent/process/worker_process.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

class SignalSource;

/// The agent's own two output streams.
struct Consoles {
  Console& out;
  Console& err;
};

class AttemptOutput {
 public:
  /// All outlive it. `on_resized` is called when the workers' terminals have got a new size.
  AttemptOutput(boost::asio::io_context& io, const JobSpec& spec, const LogLayout& layout,
                Consoles consoles, const World& world, std::function<void()> on_resized);
  /// Shows what the workers have written and nobody has read yet.
  ~AttemptOutput();

  /// The files that are the attempt's and no worker's. Before the first prepare().
  Result<void> begin();
  /// Sets the paths of the worker's stdout and stderr in `request`, and readies their readers.
  Result<void> prepare(int local_rank, const WorkerLogs& logs, SpawnRequest& request);
  /// Once it has been spawned.
  void spawned(int local_rank);

  /// The last lines of a worker's stderr, as a terminal would show them; on a terminal those of its
  /// stdout with them. At most kStderrTailBytesMax.
  [[nodiscard]] std::string stderr_tail(int local_rank) const;
  /// The last lines of each of its streams that the agent can read: not of a stdout that it has
  /// inherited.
  [[nodiscard]] std::vector<StreamTail> tails(int local_rank) const;

  /// Nobody writes any more: shows what is left of the teed files, then calls `done`.
  void finish(std::function<void()> done);

 private:
  /// Kinds of folding: a text can be equal only where its form on the console is.
  enum Form : std::uint8_t { teed_out, teed_err, relayed_out, relayed_err, kForms };
  struct Stream {
    std::string stdout_path;  // files to read the tails from
    std::string stderr_path;
    std::unique_ptr<OutputPump> out;  // a terminal
    std::unique_ptr<OutputPump> err;
    bool err_is_out = false;  // one terminal for both, in `out`
  };

  Result<void> relay(int local_rank, const WorkerLogs& logs, SpawnRequest& request);
  Result<void> tee(int local_rank, Form form, const std::string& path,
                   const std::vector<std::string>& filters);
  std::unique_ptr<OutputPump> relay_terminal(int local_rank, Form form, int like);
  OutputSink sink_for(int local_rank, Form form);
  FoldedConsole& folded(Form form);
  [[nodiscard]] Console& console_of(Form form) const;
  [[nodiscard]] std::string global_list(std::vector<int> local_ranks) const;
  [[nodiscard]] std::string prefix_of(const std::vector<int>& local_ranks) const;
  [[nodiscard]] bool folds(Form form) const;
  void follow_window_size();

  boost::asio::io_context& io_;
  const JobSpec& spec_;
  const LogLayout& layout_;
  Consoles consoles_;
  const World& world_;
  std::function<void()> on_resized_;
  std::array<std::shared_ptr<FilteredLog>, kForms> filtered_;  // of teed streams with filters
  // Readers below end, and hand over what is left, before the folding does.
  std::array<std::unique_ptr<FoldedConsole>, kForms> folds_;
  std::unique_ptr<LogTailer> follower_;
  std::vector<Stream> streams_;
  std::unique_ptr<SignalSource> window_changes_;
};

}  // namespace ddprun
