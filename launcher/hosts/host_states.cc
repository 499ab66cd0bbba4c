#include "launcher/hosts/host_states.h"

#include <algorithm>

#include "launcher/exit_status.h"
#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

bool is_good(int code) {
  return code == kExitSuccess || code == kExitResume;
}

/// By SIGKILL, as a node that loses its power: the agent has no word on the job.
bool was_killed(int code) {
  return code > exit_code_of_signal(0);
}

}  // namespace

HostStates::HostStates(int hosts, int least)
    : hosts_(static_cast<std::size_t>(hosts)), least_(least), running_(hosts) {
  DDP_CHECK(1 <= least && least <= hosts, "a job has hosts, and needs some of them");
}

void HostStates::ended(std::uint32_t host, int code) {
  DDP_CHECK(host < hosts_.size(), "the host is one of the job's");
  // The first word counts: an agent that has ended cannot be lost by what becomes of its relay.
  if (!is_settled(host)) {
    hosts_[host].code = code;
    --running_;
  }
}

void HostStates::lost(std::uint32_t host) {
  DDP_CHECK(host < hosts_.size(), "the host is one of the job's");
  if (!is_settled(host)) {
    hosts_[host].lost = true;
    --running_;
  }
  DDP_CHECK(running_ >= 0, "each host is settled once");
}

bool HostStates::is_settled(std::uint32_t host) const {
  DDP_CHECK(host < hosts_.size(), "the host is one of the job's");
  return hosts_[host].lost || hosts_[host].code.has_value();
}

bool HostStates::is_hopeless() const {
  // One that runs may end well. So may a job from which a node has left in order (code 0) before.
  const auto left = std::count_if(hosts_.begin(), hosts_.end(), [](const Host& host) {
    return !host.lost && is_good(host.code.value_or(kExitSuccess));
  });
  return left < least_;
}

void HostStates::dismiss_running() {
  for (std::uint32_t host = 0; host < hosts_.size(); ++host) {
    hosts_[host].dismissed = hosts_[host].dismissed || !is_settled(host);
  }
  DDP_CHECK(!has_failed() || running_ < static_cast<int>(hosts_.size()),
            "who has failed has ended");
}

int HostStates::ended_well() const {
  const auto well =
      static_cast<int>(std::count_if(hosts_.begin(), hosts_.end(), [](const Host& host) {
        return host.code && !host.dismissed && is_good(*host.code);
      }));
  DDP_CHECK(well + running_ <= static_cast<int>(hosts_.size()), "who has ended runs no more");
  return well;
}

bool HostStates::is_stranded() const {
  // With a MIN of 1 a host that runs may be all of the job, which the others have left in order:
  // each with 0. With 75 the job itself has ended.
  const bool has_ended = std::any_of(hosts_.begin(), hosts_.end(), [](const Host& host) {
    return !host.dismissed && host.code == kExitResume;
  });
  return running_ > 0 && (has_ended || (running_ < least_ && ended_well() > 0));
}

bool HostStates::is_over() const {
  return is_stranded() && ended_well() >= least_;
}

bool HostStates::has_failed() const {
  return std::any_of(hosts_.begin(), hosts_.end(), [](const Host& host) {
    return host.code && !host.dismissed && !is_good(*host.code) && !was_killed(*host.code);
  });
}

int HostStates::exit_code() const {
  // In the order of the job: of several failures the first is as good as any, and the same in each
  // run.
  int dismissed = 0;
  int code = kExitSuccess;
  std::optional<int> killed;
  for (const Host& host : hosts_) {
    if (host.dismissed) {
      ++dismissed;
    } else if (!host.code) {
      continue;
    } else if (is_good(*host.code)) {
      code = std::max(code, *host.code);  // 75 where any says so
    } else if (!was_killed(*host.code)) {
      return *host.code;
    } else if (!killed) {
      killed = *host.code;
    }
  }
  const int well = ended_well();
  if (well >= least_) {
    return code;
  }
  // Too few have ended well: the others are lost, or were killed, and one that was has its code.
  const bool saved = code == kExitResume && well + dismissed >= least_;
  return killed ? *killed : saved ? kExitResume : kExitFailure;
}

}  // namespace ddprun
