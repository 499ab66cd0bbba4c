#include "trainer/metrics/training_log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "ddp/error.h"
#include "trainer/metrics/metrics_json.h"

namespace ddp {
namespace {

/// A person sees no more, and a slow connection is not flooded.
constexpr auto kRedrawPause = std::chrono::milliseconds(100);
/// One line is a few hundred bytes: its attempt is in the last of these.
constexpr std::streamoff kTailBytes = 1 << 16;
constexpr std::size_t kColumnsUnknown = 80;
constexpr double kBytesPerMiB = 1 << 20;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Without the last column: many terminals begin a new line once it is filled.
std::size_t columns() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (known ? size.ws_col : kColumnsUnknown) - 1;
}

/// The end of the file; empty when there is none.
std::string tail(const std::filesystem::path& path) {
  // What else may have this name has no end, or waits for somebody.
  std::error_code absent;
  const auto kind = std::filesystem::status(path, absent).type();
  if (kind != std::filesystem::file_type::regular &&
      kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::none) {
    throw Error(path.string() + ": is not a regular file; remove it, or name another directory");
  }
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) {
    return "";
  }
  const auto size = static_cast<std::streamoff>(file.tellg());
  file.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string name_of_rank(int rank) {
  return "rank-" + std::to_string(rank);
}

std::vector<Scalar> scalars_of(const StepRecord& record, const std::string& unit) {
  const auto point = [](std::string tag, double value) {
    return Scalar{std::move(tag), static_cast<float>(value)};
  };
  return {point("train/loss", record.loss),
          point("train/learning_rate", record.learning_rate),
          point("train/epoch", static_cast<double>(record.epoch)),
          point("speed/" + unit + "_per_second", record.units_per_second),
          point("speed/memory_MiB", static_cast<double>(record.memory_bytes) / kBytesPerMiB),
          point("seconds/data", record.data_s),
          point("seconds/forward", record.forward_s),
          point("seconds/backward", record.backward_s),
          point("seconds/update", record.update_s),
          point("seconds/sync", record.sync_s),
          point("seconds/snapshot", record.snapshot_s)};
}

std::string text_of(const ValidationRecord& record) {
  char text[160];
  int length = std::snprintf(text, sizeof text, "validation after step %lld | loss %.4f",
                             static_cast<long long>(record.step), record.loss);
  if (record.accuracy) {
    length += std::snprintf(text + length, sizeof text - static_cast<std::size_t>(length),
                            " | accuracy %.2f %%", 100 * *record.accuracy);
  }
  std::snprintf(text + length, sizeof text - static_cast<std::size_t>(length), " | %.1f s",
                record.seconds);
  return text;
}

}  // namespace

bool stdout_is_terminal() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

std::int64_t next_attempt(const Context& context,
                          const std::optional<std::filesystem::path>& directory) {
  std::int64_t attempt = context.restart_count();
  if (directory) {
    const auto path = *directory / (name_of_rank(context.rank()) + ".jsonl");
    attempt = std::max(attempt, last_attempt(tail(path)) + 1);
  }
  const auto highest = Tensor::from({attempt});
  context.group().all_reduce(highest, ReduceOp::max);
  return highest.item<std::int64_t>();
}

TrainingLog::TrainingLog(TrainingLogOptions options) : options_(std::move(options)) {
  if (options_.log_every < 1) {
    throw InvalidArgument("TrainingLog: log_every must be at least 1, not " +
                          std::to_string(options_.log_every));
  }
  const auto rank = name_of_rank(options_.rank);
  if (options_.directory) {
    const auto path = *options_.directory / (rank + ".jsonl");
    const auto before = tail(path);
    options_.attempt = std::max(options_.attempt, last_attempt(before) + 1);
    lines_.emplace(path);
    // A full disk may have torn the last line. Ours begins a new one.
    const std::string gap = before.empty() || before.ends_with('\n') ? "" : "\n";
    lines_->append(gap + run_line({options_.experiment, options_.rank, options_.world_size,
                                   options_.attempt, options_.unit, options_.total_steps},
                                  seconds_since_1970()));
  }
  if (options_.tensorboard) {
    events_.emplace(*options_.tensorboard / options_.experiment / rank);
  }
}

TrainingLog::~TrainingLog() {
  clear();
}

void TrainingLog::start_curve(std::int64_t step) {
  if (events_ && !std::exchange(curve_started_, true)) {
    events_->start_at(step);
  }
}

void TrainingLog::step(const StepRecord& record) {
  if (lines_) {
    lines_->append(step_line(record, options_.attempt, seconds_since_1970()));
  }
  // At once, and not with the first point: steps that an earlier attempt drew must not outlive
  // this one.
  start_curve(record.step);
  const bool last = record.step == options_.total_steps;
  if (events_ && (record.step % options_.log_every == 0 || last)) {
    events_->add(record.step, scalars_of(record, options_.unit));
  }
  if (options_.rank == 0) {
    show(record);
  }
}

void TrainingLog::validation(const ValidationRecord& record) {
  if (lines_) {
    lines_->append(validation_line(record, options_.attempt, seconds_since_1970()));
  }
  start_curve(record.step);
  if (events_) {
    std::vector<Scalar> scalars = {{"validation/loss", static_cast<float>(record.loss)}};
    if (record.accuracy) {
      scalars.push_back({"validation/accuracy", static_cast<float>(*record.accuracy)});
    }
    events_->add(record.step, scalars);
  }
  if (options_.rank == 0 && options_.plain_lines) {
    say(text_of(record));
  }
}

void TrainingLog::say(std::string_view line) {
  clear();
  std::printf("%.*s\n", static_cast<int>(line.size()), line.data());
}

std::optional<double> TrainingLog::seconds_left(std::int64_t step, Clock::time_point now) const {
  if (options_.total_steps == 0 || step <= first_step_) {
    return std::nullopt;
  }
  const double passed = std::chrono::duration<double>(now - first_step_at_).count();
  return passed / static_cast<double>(step - first_step_) *
         static_cast<double>(std::max<std::int64_t>(0, options_.total_steps - step));
}

void TrainingLog::show(const StepRecord& record) {
  const auto now = Clock::now();
  if (first_step_ == 0) {
    first_step_ = record.step;
    first_step_at_ = now;
  }
  view_ = {.step = record.step,
           .total_steps = options_.total_steps,
           .epoch = record.epoch,
           .loss = record.loss,
           .learning_rate = record.learning_rate,
           .units_per_second = record.units_per_second,
           .unit = options_.unit,
           .seconds_left = seconds_left(record.step, now)};
  const bool last = record.step == options_.total_steps;
  const bool due = last || (!options_.terminal && record.step % options_.log_every == 0);
  if (options_.plain_lines && due) {
    say(log_text(view_));  // on a terminal, too, the last state stays
  } else if (options_.terminal && now - drawn_at_ >= kRedrawPause) {
    draw(now);
  }
}

void TrainingLog::draw(Clock::time_point now) {
  // Written over and then cleared to the end of the line: so it does not flicker.
  std::printf("\r%s\x1b[K", bar_text(view_, columns()).c_str());
  std::fflush(stdout);
  drawn_ = true;
  drawn_at_ = now;
}

void TrainingLog::clear() {
  if (std::exchange(drawn_, false)) {
    std::printf("\r\x1b[K");
    std::fflush(stdout);
  }
}

}  // namespace ddp
