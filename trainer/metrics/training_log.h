// TrainingLog: what one rank tells of its training, while it goes on and for later. Made once per
// rank. It writes
//   - DIR/rank-N.jsonl, every step, one line of JSON each (docs/metrics.md);
//   - TensorBoard's event files in TENSORBOARD/<experiment>/rank-N (docs/event-files.md);
//   - on rank 0 a progress bar where stdout is a terminal, else plain lines.
// A resumed run goes on in the same files. It is no timer: the trainer measures, this writes.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "ddp/ddp.h"
#include "trainer/metrics/append_file.h"
#include "trainer/metrics/event_file.h"
#include "trainer/metrics/progress_text.h"
#include "trainer/metrics/step_record.h"

namespace ddp {

struct TrainingLogOptions {
  int rank = 0;
  int world_size = 1;
  std::string experiment = "run";
  /// Where the JSON lines go. None: nowhere.
  std::optional<std::filesystem::path> directory;
  /// Where the event files go. None: nowhere.
  std::optional<std::filesystem::path> tensorboard;
  /// next_attempt(). It is raised above every attempt that the file names, so that a step that is
  /// repeated has another attempt, even where the whole command was started again.
  std::int64_t attempt = 0;
  std::int64_t total_steps = 0;  ///< of the whole run; 0: not known
  /// Steps per plain line and per point of TensorBoard's curves; at least 1.
  std::int64_t log_every = 1;
  std::string unit = "samples";  ///< of StepRecord::units_per_second
  bool terminal = false;         ///< stdout_is_terminal(), or not
  bool plain_lines = true;       ///< false: the trainer says its own, by say()
};

/// The attempt for TrainingLogOptions: one for all ranks, at least Context::restart_count(), and
/// above every attempt that any rank's file in `directory` names. A rank that died early has told
/// of fewer attempts than the others. Collective, also on a rank without a directory.
std::int64_t next_attempt(const Context& context,
                          const std::optional<std::filesystem::path>& directory);

/// stdout is a terminal that can go back to the start of a line. True of a worker under ddprun
/// too, when ddprun's own stdout is one (docs/logs.md).
bool stdout_is_terminal();

/// Not thread-safe: the training thread's.
class TrainingLog {
 public:
  /// Throws ddp::Error when a directory cannot be written; later failures of the disk are
  /// reported on stderr, once per file.
  explicit TrainingLog(TrainingLogOptions options);
  /// Clears the bar.
  ~TrainingLog();
  TrainingLog(const TrainingLog&) = delete;
  TrainingLog& operator=(const TrainingLog&) = delete;

  /// In the order of steps. The first one of this object is where a resumed curve goes on.
  void step(const StepRecord& record);
  void validation(const ValidationRecord& record);
  /// Prints one line, without its line feed, on stdout, with no bar in its way. On any rank.
  void say(std::string_view line);

  [[nodiscard]] std::int64_t attempt() const { return options_.attempt; }

 private:
  using Clock = std::chrono::steady_clock;

  void start_curve(std::int64_t step);
  void show(const StepRecord& record);
  void draw(Clock::time_point now);
  void clear();
  [[nodiscard]] std::optional<double> seconds_left(std::int64_t step, Clock::time_point now) const;

  TrainingLogOptions options_;
  std::optional<AppendFile> lines_;
  std::optional<EventFile> events_;
  bool curve_started_ = false;
  /// The first step and when it was done: the pace is measured from there.
  std::int64_t first_step_ = 0;
  Clock::time_point first_step_at_;
  ProgressView view_;
  bool drawn_ = false;  ///< the bar is on the screen
  Clock::time_point drawn_at_;
};

}  // namespace ddp
