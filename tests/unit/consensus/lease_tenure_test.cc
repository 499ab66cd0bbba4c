// Processes that decide by one Lease who leads them, under simulated time: the product's own
// ServiceTenure, LeaseExchange and answers, around a played API server that is slow, loses answers,
// and does late what its asker has given up.
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/consensus/lease_exchange.h"
#include "rendezvous/node/service_tenure.h"
#include "tests/unit/consensus/played_api_server.h"

namespace ddprun {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kPatience = seconds(3);
constexpr Instant kTroubleEnds = seconds(180);
const KubernetesAsked kAsked{"https://k:443", "default", "ddprun-job", "token"};

struct Run {
  std::multimap<Instant, std::function<void()>> events;
  Instant now{};
  std::mt19937_64 random;
  test::PlayedApiServer server;
  bool is_away = false;
  int leaderships = 0;

  void at(Instant when, std::function<void()> action) { events.emplace(when, std::move(action)); }
  [[nodiscard]] Instant up_to(Instant most) {
    return Instant(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most.count())));
  }
  [[nodiscard]] bool chance(double part) {
    return static_cast<double>(random() % 1'000'000) < part * 1e6;
  }
  [[nodiscard]] bool is_in_trouble() const { return now < kTroubleEnds; }
};

/// Wants to lead whenever it sees that nobody does, and ends now and then.
class Process {
 public:
  Process(Run& run, std::uint64_t number, double rate)
      : run_(run),
        number_(number),
        rate_(rate),
        tenure_(kLeases),
        exchange_({"job", "host" + std::to_string(number), run.random()}, kLeases) {
    look();
  }

  [[nodiscard]] bool leads() const { return tenure_.leads_until() > now(); }
  [[nodiscard]] bool is_alive() const { return is_alive_; }

  /// Its host falls silent: what it asked may arrive yet.
  void fall_silent() { is_alive_ = false; }
  void let_go() { step(tenure::LetGo{}); }
  /// It lives, and does not reach the server.
  void cut_off(Instant lasts) { cut_until_ = run_.now + lasts; }

 private:
  static constexpr TenureLeases kLeases{seconds(15), seconds(60)};

  /// By its own clock.
  [[nodiscard]] Instant now() const {
    return Instant(static_cast<std::int64_t>(static_cast<double>(run_.now.count()) * rate_)) +
           seconds(1'000) * number_;
  }
  [[nodiscard]] LeaseExchange::Moment moment() const {
    return {now(), WallTime(duration_cast<std::chrono::microseconds>(run_.now))};
  }

  void look() {
    if (!is_alive_) {
      return;
    }
    if (!tries_ && !leads()) {
      tries_ = true;
      ids_[++last_id_] = 0;
      carry_out(exchange_.asked(moment(), last_id_, ReadView{}));
    }
    run_.at(run_.now + milliseconds(500) + run_.up_to(milliseconds(500)), [this] { look(); });
  }

  void step(tenure::Input input) {
    const auto actions = tenure_.step(now(), std::move(input));
    arm();
    for (const auto& action : actions) {
      if (const auto* asked = std::get_if<tenure::Ask>(&action)) {
        ids_[++last_id_] = asked->ticket;
        carry_out(exchange_.asked(moment(), last_id_, asked->question));
      } else {
        done(std::get<tenure::Done>(action));
      }
    }
  }

  void done(const tenure::Done& of) {
    if (of.wish == 1) {
      tries_ = false;
      if (of.done && *of.done) {
        ++run_.leaderships;
        step(tenure::StateGiven{2, "state of " + std::to_string(number_)});
      }
    }
  }

  void arm() {
    const auto due = tenure_.next_deadline();
    if (due && due != armed_) {
      const Instant in = std::max(*due - now(), Instant{1});
      run_.at(run_.now + in + in / 20, [this, due] {
        if (is_alive_ && tenure_.next_deadline() == due) {
          armed_.reset();
          step(tenure::TimePassed{});
        }
      });
    }
    armed_ = due;
  }

  void carry_out(LeaseExchange::Actions actions) {
    for (auto& action : actions) {
      std::visit([this](auto& one) { carry_out(one); }, action);
    }
  }
  void carry_out(const lease_exchange::Viewed& viewed) {
    const bool is_led =
        viewed.view && viewed.view->leader && viewed.view->leader->voter != VoterId{number_ + 1};
    if (!viewed.view || is_led) {
      tries_ = false;
      return;
    }
    LeaderRecord self{Term{number(viewed.view->newest_term) + 1},
                      VoterId{number_ + 1},
                      JobInstance{1},
                      {"10.0.0.1"},
                      1};
    step(tenure::LeadWished{1, *viewed.view, self});
  }
  void carry_out(lease_exchange::Ended& ended) {
    step(tenure::Answered{ids_.at(ended.id), std::move(ended.answer)});
  }

  /// One answer for each request, in time, or the end of patience.
  void carry_out(lease_exchange::Request& request) {
    const auto answered = std::make_shared<bool>(false);
    const auto tell = [this, answered](LeaseReply reply) {
      if (is_alive_ && !std::exchange(*answered, true)) {
        carry_out(exchange_.replied(moment(), std::move(reply)));
      }
    };
    const bool is_lost =
        run_.is_in_trouble() && (run_.is_away || run_.now < cut_until_ || run_.chance(0.1));
    const Instant arrives = is_lost ? run_.up_to(seconds(6)) : run_.up_to(milliseconds(200));
    const Instant sent = run_.now + request.pause;
    run_.at(sent + arrives, [this, tell, is_lost, request] {
      if (is_lost && run_.chance(0.5)) {
        return;
      }
      const HttpReply said = run_.server.take(request.verb, request.body);
      if (!is_lost) {
        run_.at(run_.now + run_.up_to(milliseconds(200)),
                [tell, said, request] { tell(lease_reply(request.verb, said, kAsked)); });
      }
    });
    run_.at(sent + kPatience, [tell] {
      tell(no_lease_reply({"no answer came in time", {}, {}}, kAsked));
    });
  }

  Run& run_;
  std::uint64_t number_;
  double rate_;
  ServiceTenure tenure_;
  LeaseExchange exchange_;
  std::map<lease_exchange::Id, tenure::Ticket> ids_;
  lease_exchange::Id last_id_ = 0;
  std::optional<Instant> armed_;
  bool tries_ = false;
  bool is_alive_ = true;
  Instant cut_until_{};
};

}  // namespace

TEST_CASE("At no time two processes lead by one Lease, whatever gets lost") {
  int leaderships = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    Run run;
    run.random.seed(seed);
    std::vector<std::unique_ptr<Process>> processes;
    for (std::uint64_t number = 0; number < 4; ++number) {
      const double rate = 0.99 + 0.02 * static_cast<double>(run.random() % 1'000) / 1'000;
      processes.push_back(std::make_unique<Process>(run, number, rate));
    }
    for (int fault = 0; fault < 12; ++fault) {
      run.at(run.up_to(kTroubleEnds), [&run, &processes] {
        Process& struck = *processes[run.random() % (processes.size() - 1)];
        switch (run.random() % 5) {
          case 0:
            run.server.object.reset();  // somebody deletes it by hand
            break;
          case 1:
            struck.is_alive() && struck.leads() ? struck.let_go() : void();
            break;
          case 2:
            struck.fall_silent();
            break;
          case 3:
            struck.cut_off(run.up_to(seconds(40)));
            break;
          default:
            run.is_away = true;
            run.at(run.now + run.up_to(seconds(30)), [&run] { run.is_away = false; });
        }
      });
    }
    // One that nothing strikes but what strikes all.
    const double rate = 1.0;
    processes.push_back(std::make_unique<Process>(run, 4, rate));
    Instant deleted_at = -seconds(100);
    while (!run.events.empty() && run.now < kTroubleEnds + seconds(60)) {
      const auto next = run.events.begin();
      run.now = next->first;
      const auto action = std::move(next->second);
      run.events.erase(next);
      const bool was_there = run.server.object.has_value();
      action();
      deleted_at = was_there && !run.server.object ? run.now : deleted_at;
      int leading = 0;
      for (const auto& process : processes) {
        leading += process->is_alive() && process->leads() ? 1 : 0;
      }
      // Who deletes a Lease by hand ends its leader's right at once (docs/kubernetes.md).
      if (leading > 1 && run.now - deleted_at > seconds(15)) {
        FAIL("two lead at " << run.now.count());
      }
    }
    int leading = 0;
    for (const auto& process : processes) {
      leading += process->is_alive() && process->leads() ? 1 : 0;
    }
    CHECK(leading == 1);
    leaderships += run.leaderships;
  }
  CHECK(leaderships > 16);  // it changes: else nothing was shown
}

}  // namespace ddprun
