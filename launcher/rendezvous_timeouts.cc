#include "launcher/rendezvous_timeouts.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string_view>

#include "launcher/list_options.h"
#include "launcher/python_numbers.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Several heartbeats have to come within it. At 5 ms two agents of one idle machine lose each
/// other all the time, and attempts that end so cost no restart: the job would begin for ever.
constexpr milliseconds kHeartbeatTimeoutMin{100};
/// For ever, to a job: messages carry the milliseconds of this timeout in 31 bits, which are 24.8
/// days.
constexpr milliseconds kHeartbeatTimeoutMax = std::chrono::hours(24 * 24);

}  // namespace

/// Defaults are torchrun's: 900 s of its LaunchConfig for static, 600 s of RendezvousTimeout for
/// c10d, and 3 intervals of 5 s for the keep-alive.
Result<void> resolve_timeouts(const Options& options, const RdzvConf& conf, JobSpec& job) {
  const bool is_static = job.backend == RendezvousBackend::static_ranks;
  job.join_timeout =
      is_static ? conf.timeout.value_or(seconds(900)) : conf.join_timeout.value_or(seconds(600));
  if (conf.last_call_timeout) {
    job.last_call_timeout = *conf.last_call_timeout;
  }
  // torchrun's keep-alive has the same meaning: how long a node may be silent before it is lost.
  if (conf.keep_alive_interval || conf.keep_alive_max_attempt) {
    const seconds interval = conf.keep_alive_interval.value_or(seconds(5));
    const int attempts = conf.keep_alive_max_attempt.value_or(3);
    // Two numbers of 31 bits: their product in seconds fits into 64 bits, in milliseconds not.
    job.heartbeat_timeout = std::min(interval * static_cast<std::int64_t>(attempts), kTimeMax);
  }
  const auto replace = [&](milliseconds& value, const std::optional<double>& given,
                           std::string_view name) -> Result<void> {
    if (!given) {
      return {};
    }
    // Written so that NaN fails as well, which Python's float() reads.
    if (!(*given >= 0.001)) {
      return Error{"the time must be above 0", origin(options, name),
                   "give a number of seconds such as 3 or 0.5"};
    }
    // Cut before it is counted with: Python's float() reads inf, too.
    const double most = kTimeMax.count();
    value = milliseconds(std::llround(std::min(*given, most) * 1000));
    return {};
  };
  if (const auto done = replace(job.join_timeout, options.join_timeout_seconds, "join-timeout");
      !done) {
    return done.error();
  }
  if (const auto done =
          replace(job.heartbeat_timeout, options.heartbeat_timeout_seconds, "heartbeat-timeout");
      !done) {
    return done.error();
  }
  if (job.heartbeat_timeout < kHeartbeatTimeoutMin) {
    return Error{"nodes would be lost that are only slow for a moment",
                 origin(options, "heartbeat-timeout"), "give at least 0.1 seconds"};
  }
  job.heartbeat_timeout = std::min(job.heartbeat_timeout, kHeartbeatTimeoutMax);
  return {};
}

}  // namespace ddprun
