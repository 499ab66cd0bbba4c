#include "launcher/ending_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/list_options.h"
#include "launcher/notice_sources.h"
#include "launcher/python_numbers.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/contract/environment.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

/// Separate from resolve(), because these options speak of one thing: what happens to workers that
/// did not fail when the job has to end.
class EndingResolver {
 public:
  EndingResolver(const Options& options, const Environment& environment,
                 const std::function<milliseconds()>& unix_time, JobSpec& job)
      : options_(options), environment_(environment), unix_time_(unix_time), job_(job) {}

  /// The order decides which of several mistakes is reported.
  Result<std::vector<Notice>> run() {
    for (const auto step : {&EndingResolver::signals, &EndingResolver::shutdown,
                            &EndingResolver::preemption, &EndingResolver::notices}) {
      if (const auto done = (this->*step)(); !done) {
        return done.error();
      }
    }
    DDP_CHECK(job_.shutdown_timeout.count() >= 0, "a timeout is not negative");
    DDP_CHECK(job_.preempt_grace.count() > 0, "workers have some time to save");
    DDP_CHECK(!job_.deadline || job_.deadline->count() > 0, "a deadline is after the start");
    return std::move(notices_);
  }

 private:
  [[nodiscard]] std::string at(std::string_view name) const { return origin(options_, name); }

  /// Workers get the list as the user wrote it, in TORCHELASTIC_SIGNALS_TO_HANDLE.
  Result<void> signals() {
    const std::string& text = options_.signals_to_handle;
    job_.signals_to_handle_text = text;
    for (const std::string& name : split_commas(text)) {
      const int number = signal_number(name);
      if (number <= 0) {
        // As torchrun: one list may serve several systems, each with signals of its own.
        notices_.push_back({LogLevel::warning, at("signals-to-handle") + ": there is no signal " +
                                                   in_quotes(name) + " here; it is left out"});
        continue;
      }
      if (number == SIGKILL || number == SIGSTOP) {
        return Error{"no program can handle " + name, at("signals-to-handle"), "leave it out"};
      }
      // TERM and SIGTERM are one signal, which has one handler.
      auto& numbers = job_.signals_to_handle;
      if (std::find(numbers.begin(), numbers.end(), number) == numbers.end()) {
        numbers.push_back(number);
      }
    }
    if (job_.signals_to_handle.empty()) {
      notices_.push_back({LogLevel::warning, at("signals-to-handle") +
                                                 ": no signal is named, so each of them ends this "
                                                 "agent at once, and not the job"});
    }
    return {};
  }

  /// The option wins over torchrun's own variable.
  Result<void> shutdown() {
    std::optional<int> seconds = options_.shutdown_timeout_seconds;
    std::string where = at("shutdown-timeout");
    const char* const variable = environment_(env::kShutdownTimeout);
    const std::string text = variable == nullptr ? std::string() : std::string(variable);
    if (!seconds && !text.empty()) {
      where = env::kShutdownTimeout;
      seconds = read_capped_int(text);
      if (!seconds) {
        return Error{in_quotes(text) + " is not a whole number of seconds", where,
                     "set it to a number such as 30"};
      }
    }
    if (seconds && *seconds < 0) {
      return Error{fmt::format("the time cannot be {} seconds", *seconds), where, "give 0 or more"};
    }
    if (seconds) {
      job_.shutdown_timeout = std::min(std::chrono::seconds(*seconds), kTimeMax);
    }
    return {};
  }

  /// The grace is for saving a state, so it is far longer than the shutdown timeout. A deadline is
  /// a preemption that its user orders in advance (docs/preemption.md).
  Result<void> preemption() {
    const auto grace = read_time(options_.preempt_grace);
    if (!grace) {
      return Error{in_quotes(options_.preempt_grace) + " is not a time", at("preempt-grace"),
                   "write for example 90s, 10m or 1h"};
    }
    job_.preempt_grace = std::chrono::duration_cast<milliseconds>(*grace);
    if (!options_.deadline) {
      return {};
    }
    const std::string_view text = *options_.deadline;
    return text.starts_with('@') ? deadline_at(text) : deadline_after(text);
  }

  /// --on-notice without a source says nothing, and is no mistake: a site may set PET_ON_NOTICE for
  /// all jobs.
  Result<void> notices() {
    auto sources =
        parse_notice_sources(options_.preempt_notice, at("preempt-notice"), environment_);
    if (!sources) {
      return sources.error();
    }
    job_.notice_sources = std::move(*sources);
    job_.on_notice = options_.on_notice == "leave" ? NoticeResponse::leave : NoticeResponse::save;
    return {};
  }

  Result<void> deadline_after(std::string_view text) {
    const auto time = read_time(text);
    if (!time) {
      return Error{in_quotes(text) + " is not a time", at("deadline"),
                   "write for example 230m, or @ and a Unix time"};
    }
    job_.deadline = std::chrono::duration_cast<milliseconds>(*time);
    return {};
  }

  /// The agent counts on a steady clock from its own start, so an instant becomes a time from now:
  /// a clock that is set while the job runs does not move the deadline.
  Result<void> deadline_at(std::string_view text) {
    DDP_CHECK(text.starts_with('@'), "an instant begins with its mark");
    std::int64_t unix_time = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + 1, end, unix_time);
    // In the year 5138: later times are typos, and their milliseconds would come near overflow.
    constexpr std::int64_t kUnixTimeMax = 100'000'000'000;
    if (read.ec != std::errc() || read.ptr != end || unix_time > kUnixTimeMax) {
      return Error{in_quotes(text) + " is not a Unix time", at("deadline"),
                   "write @ and the seconds since 1970, as `date +%s` does"};
    }
    // A time far before 1970 is refused before it is counted with: its difference from now would
    // wrap round to a deadline.
    if (unix_time > 0) {
      job_.deadline = std::chrono::seconds(unix_time) - unix_time_();
    }
    if (!job_.deadline || *job_.deadline <= milliseconds(0)) {
      return Error{"the time " + in_quotes(text) + " has passed", at("deadline"),
                   "give a time in the future"};
    }
    return {};
  }

  const Options& options_;
  const Environment& environment_;
  const std::function<milliseconds()>& unix_time_;
  JobSpec& job_;
  std::vector<Notice> notices_;
};

}  // namespace

Result<std::vector<Notice>> resolve_ending(const Options& options, const Environment& environment,
                                           const std::function<milliseconds()>& unix_time,
                                           JobSpec& job) {
  return EndingResolver(options, environment, unix_time, job).run();
}

}  // namespace ddprun
