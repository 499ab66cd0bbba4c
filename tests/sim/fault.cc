#include "tests/sim/fault.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>

namespace ddprun::sim {
namespace {

/// A second.
constexpr double kTogether = 0.01;

class Draw {
 public:
  explicit Draw(const SimOptions& options) : o_(options), random_(options.seed, 2) {}

  std::vector<Fault> all() {
    for (int i = 0; i < o_.machines(); ++i) {
      faults_.push_back({random_.up_to(o_.join_within), FaultKind::start, i});
    }
    const Rates& rates = o_.rates;
    simple(FaultKind::worker_failure, rates.worker_failures);
    simple(FaultKind::signal, rates.signals);
    simple(FaultKind::clock_jump, rates.clock_jumps);
    simple(FaultKind::stranger, rates.strangers);
    losses(FaultKind::death, rates.deaths);
    losses(FaultKind::vanishing, rates.vanishings);
    stops(FaultKind::agent_stop, rates.agent_stops);
    stops(FaultKind::node_stop, rates.node_stops);
    stops(FaultKind::suspension, rates.suspensions);
    stops(FaultKind::coordinator_stop, rates.coordinator_stops);
    cuts();
    flaps();
    each(rates.coordinator_deaths, [&](Duration at) {
      faults_.push_back({at, random_.chance(0.5) ? FaultKind::coordinator_death
                                                 : FaultKind::coordinator_vanishing});
    });
    simple(FaultKind::preemption, rates.preemptions);
    each(rates.leaves, [&](Duration at) {
      const int target = anyone();
      faults_.push_back({at, FaultKind::leave, target});
      if (random_.chance(o_.return_chance)) {
        faults_.push_back({at + random_.up_to(seconds(20)), FaultKind::start, target});
      }
    });
    if (o_.failover && random_.chance(o_.fatal_ends)) {
      faults_.push_back({Duration(0), FaultKind::end_vanishing});
    }
    if (o_.fresh_coordinators && o_.failover) {
      together();
    }
    if (o_.service) {
      service();
    }
    std::stable_sort(faults_.begin(), faults_.end(),
                     [](const Fault& a, const Fault& b) { return a.at < b.at; });
    return std::move(faults_);
  }

 private:
  template <class Action>
  void each(double per_second, Action action) {
    const int count =
        random_.count_of(per_second * std::chrono::duration<double>(o_.faults_until).count());
    for (int i = 0; i < count; ++i) {
      action(random_.up_to(o_.faults_until));
    }
  }

  void simple(FaultKind kind, double rate) {
    each(rate, [&](Duration at) { faults_.push_back({at, kind, anyone()}); });
  }

  void losses(FaultKind kind, double rate) {
    each(rate, [&](Duration at) {
      const int target = anyone();
      faults_.push_back({at, kind, target});
      if (random_.chance(o_.return_chance)) {
        // A machine that is replaced may be so before anybody knows that it is gone.
        const Duration back = random_.chance(0.5) ? random_.between(milliseconds(20), seconds(2))
                                                  : random_.between(seconds(2), seconds(20));
        faults_.push_back({at + back, FaultKind::start, target});
      }
    });
  }

  void stops(FaultKind kind, double rate) {
    each(rate, [&](Duration at) { faults_.push_back({at, kind, anyone(), 1, some_time()}); });
  }

  /// The agent at the endpoint and another one die at about the same time, and are restarted.
  void together() {
    each(kTogether, [&](Duration at) {
      for (const int target : {0, anyone()}) {
        const Duration dies = at + random_.up_to(milliseconds(150));
        faults_.push_back({dies, FaultKind::death, target});
        faults_.push_back({dies + random_.up_to(milliseconds(500)), FaultKind::start, target});
      }
    });
  }

  void cuts() {
    each(o_.rates.cuts, [&](Duration at) {
      const int span = random_.chance(0.5) ? 1 : 1 + random_.number_below(o_.machines());
      faults_.push_back({at, cut_kind(), anyone(), span, some_time()});
    });
  }

  void flaps() {
    each(o_.rates.flaps, [&](Duration at) {
      const int target = anyone();
      const FaultKind kind = cut_kind();
      const bool same = random_.chance(0.5);
      for (int i = 2 + random_.number_below(8); i > 0; --i) {
        const Duration lasts = random_.up_to(o_.heartbeat_timeout);
        faults_.push_back({at, same ? kind : cut_kind(), target, 1, lasts});
        at += lasts + random_.up_to(seconds(1));
      }
    });
  }

  /// From a stream of its own, as in draw().
  void service() {
    random_ = Random(o_.seed, 7);
    const auto lasting = [&](FaultKind kind, double rate) {
      each(rate, [&](Duration at) {
        const int span = 1 + random_.number_below(o_.machines());
        faults_.push_back(
            {at, kind, anyone(), kind == FaultKind::service_cut ? span : 1, service_time()});
      });
    };
    lasting(FaultKind::service_away, o_.rates.services_away);
    lasting(FaultKind::service_cut, o_.rates.service_cuts);
    lasting(FaultKind::service_slow, o_.rates.services_slow);
    lasting(FaultKind::service_loss, o_.rates.service_losses);
    simple(FaultKind::service_erasure, o_.rates.service_erasures);
  }
  /// Shorter and longer than a leader's lease, and about as long.
  Duration service_time() {
    return random_.chance(0.4)   ? random_.up_to(seconds(4))
           : random_.chance(0.5) ? random_.between(seconds(10), seconds(18))
                                 : random_.between(seconds(4), seconds(30));
  }

  int anyone() { return random_.number_below(o_.machines()); }
  FaultKind cut_kind() {
    constexpr FaultKind kKinds[] = {FaultKind::cut, FaultKind::silent_cut, FaultKind::deaf_cut};
    return kKinds[random_.below(std::size(kKinds))];
  }
  /// Shorter and longer than what a heartbeat notices, and about as long.
  Duration some_time() {
    const Duration timeout = o_.heartbeat_timeout;
    return random_.chance(0.4)   ? random_.up_to(timeout)
           : random_.chance(0.5) ? random_.between(timeout * 8 / 10, timeout * 12 / 10)
                                 : random_.between(timeout, 5 * timeout);
  }

  const SimOptions& o_;
  Random random_;
  std::vector<Fault> faults_;
};

constexpr std::array<const char*, kFaultKinds> kNames{
    "start",
    "worker-failure",
    "death",
    "vanishing",
    "cut",
    "silent-cut",
    "deaf-cut",
    "agent-stop",
    "node-stop",
    "suspension",
    "signal",
    "clock-jump",
    "stranger",
    "coordinator-death",
    "coordinator-vanishing",
    "coordinator-stop",
    "preemption",
    "leave",
    "end-vanishing",
    "service-away",
    "service-cut",
    "service-slow",
    "service-loss",
    "service-erasure",
};

std::string seconds_of(Duration duration) {
  constexpr std::int64_t kNano = 1'000'000'000;
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%lld.%09lld",
                static_cast<long long>(duration.count() / kNano),
                static_cast<long long>(duration.count() % kNano));
  return text.data();
}

Duration duration_of(long long whole, long long nano) {
  return seconds(whole) + Duration(nano);
}

}  // namespace

const char* to_text(FaultKind kind) {
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string to_text(const Fault& fault) {
  std::string text =
      seconds_of(fault.at) + " " + to_text(fault.kind) + " n" + std::to_string(fault.target);
  if (fault.span > 1) {
    text += "+" + std::to_string(fault.span - 1);
  }
  return fault.lasts.count() > 0 ? text + " for " + seconds_of(fault.lasts) : text;
}

std::string to_text(const std::vector<Fault>& faults) {
  std::string text;
  for (const Fault& fault : faults) {
    text += to_text(fault) + "\n";
  }
  return text;
}

std::optional<Fault> parse_fault(const std::string& line) {
  long long at = 0;
  long long at_nano = 0;
  std::array<char, 32> kind{};
  int target = 0;
  int used = 0;
  if (std::sscanf(line.c_str(), "%lld.%9lld %31s n%d%n", &at, &at_nano, kind.data(), &target,
                  &used) != 4) {
    return std::nullopt;
  }
  const auto* found = std::find(kNames.begin(), kNames.end(), std::string(kind.data()));
  if (found == kNames.end() || target < 0 || at < 0) {
    return std::nullopt;
  }
  Fault fault{duration_of(at, at_nano), static_cast<FaultKind>(found - kNames.begin()), target};
  std::string rest = line.substr(static_cast<std::size_t>(used));
  int more = 0;
  if (std::sscanf(rest.c_str(), "+%d%n", &more, &used) == 1 && more > 0) {
    fault.span = more + 1;
    rest.erase(0, static_cast<std::size_t>(used));
  }
  long long lasts = 0;
  long long lasts_nano = 0;
  if (std::sscanf(rest.c_str(), " for %lld.%9lld", &lasts, &lasts_nano) == 2) {
    fault.lasts = duration_of(lasts, lasts_nano);
  }
  return fault;
}

std::vector<Fault> draw_faults(const SimOptions& options) {
  return Draw(options).all();
}

}  // namespace ddprun::sim
