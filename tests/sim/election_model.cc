#include "tests/sim/election_model.h"

#include <algorithm>
#include <sstream>

#include "rendezvous/membership/quorum.h"
#include "tests/sim/election_machine.h"

namespace ddprun::sim {

ElectionModel::ElectionModel(ElectionOptions options) : options_(options), random_(options.seed) {}
ElectionModel::~ElectionModel() = default;

void ElectionModel::at(Instant time, std::function<void()> action) {
  queue_.push({std::max(time, now_), sequence_++, std::move(action)});
}

/// Later, in the same life of the process.
void ElectionModel::later(Machine& machine, Instant delay, std::function<void(Machine&)> action) {
  at(now_ + delay, [&machine, life = machine.life, action = std::move(action)] {
    if (machine.up && machine.life == life) {
      action(machine);
    }
  });
}

/// As TCP does: in order, and what a cut swallows is sent again until the process that it was meant
/// for is gone.
void ElectionModel::send(Machine& from, Machine& to, std::function<void(Machine&)> what) {
  Wire& wire = wires_[{from.index, to.index}];
  wire.last = std::max(wire.last, now_ + (&from == &to ? 0ns : up_to(10ms)));
  wire.messages.push_back({to.life, std::move(what)});
  at(wire.last,
     [this, &to, &wire, link = std::pair(from.index, to.index)] { deliver(link, wire, to); });
}

void ElectionModel::deliver(std::pair<int, int> link, Wire& wire, Machine& to) {
  if (wire.messages.empty()) {
    return;
  }
  if (to.up && cut_.contains(link)) {
    wire.last = std::max(wire.last, now_ + 200ms);
    at(wire.last, [this, link, &wire, &to] { deliver(link, wire, to); });
    return;
  }
  auto [life, what] = std::move(wire.messages.front());
  wire.messages.pop_front();
  if (to.up && to.life == life) {
    what(to);
  }
}

Instant ElectionModel::up_to(Instant most) {
  return Instant(std::uniform_int_distribution<std::int64_t>(0, most.count())(random_));
}

bool ElectionModel::chance(double probability) {
  return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
}

void ElectionModel::log(const Machine& machine, const std::string& what) {
  std::ostringstream line;
  line << std::chrono::duration<double>(now_).count() << " m" << machine.index << " " << what
       << "\n";
  trace_ += line.str();
}

void ElectionModel::broken(const std::string& what) {
  if (violation_.empty()) {
    violation_ = what;
    trace_ += "VIOLATION " + what + "\n";
  }
}

// ---- the world -----------------------------------------------------------------------------

void ElectionModel::run() {
  for (int i = 0; i < options_.machines; ++i) {
    machines_.push_back(std::make_unique<Machine>());
    machines_.back()->index = i;
    machines_.back()->id = ElectorId{random_()};
  }
  lead(*machines_[0], Term{1}, AttemptNumber{0}, {});
  for (auto& machine : machines_) {
    if (machine->index != 0) {
      join(*machine, *machines_[0], Term{1}, now_);
    }
    beat(*machine);
  }
  faults();
  while (!queue_.empty() && now_ < options_.ends && violation_.empty()) {
    Action action = queue_.top();
    queue_.pop();
    now_ = action.time;
    action.run();
  }
}

bool ElectionModel::alive_at_end() const {
  return std::any_of(machines_.begin(), machines_.end(),
                     [](const auto& machine) { return machine->up && machine->live; });
}

bool ElectionModel::quorum_died() const {
  const auto died = [this](const Roster& roster) {
    std::size_t here = 0;
    bool coordinator = false;
    for (const auto& machine : machines_) {
      if (machine->up && std::find(roster.electors.begin(), roster.electors.end(), machine->id) !=
                             roster.electors.end()) {
        ++here;
        coordinator = coordinator || (machine->id == newest_coordinator_ && machine->leads);
      }
    }
    return !keeps_quorum(here, roster.electors.size(), coordinator);
  };
  return died(newest_) || died(announced_);
}

void ElectionModel::die(Machine& machine) {
  log(machine, "dies");
  machine.up = false;
  machine.live.reset();
  machine.dying.reset();
  ++machine.life;
  for (auto& other : machines_) {
    if (other->up && other->coordinator == machine.index) {
      const auto connection = other->connection;
      send(machine, *other, [this, connection](Machine& to) {
        if (to.connection == connection) {
          leave_coordinator(to, true);
        }
      });
    }
    if (other->up && other->leads) {
      send(machine, *other,
           [this, connection = machine.connection, index = machine.index](Machine& to) {
             if (follows(to, index, connection)) {
               drop(to, index);
             }
           });
    }
  }
}

void ElectionModel::boot(Machine& machine) {
  const auto life = machine.life;
  const auto index = machine.index;
  machine = Machine{};
  machine.index = index;
  machine.life = life;
  machine.id = ElectorId{random_()};
  log(machine, "boots");
  beat(machine);
  seek(machine);
}

void ElectionModel::faults() {
  if (now_ > options_.faults_until) {
    cut_.clear();
    for (auto& machine : machines_) {
      if (!machine->up) {
        machine->up = true;
        boot(*machine);
      }
    }
    return;
  }
  constexpr Instant kTick = 100ms;
  const double tick = 0.1;
  for (auto& from : machines_) {
    for (auto& to : machines_) {
      if (from != to && chance(options_.cuts * tick / options_.machines)) {
        cut_.insert({from->index, to->index});
        at(now_ + up_to(10s), [this, a = from->index, b = to->index] { cut_.erase({a, b}); });
      }
    }
    if (from->up && chance(options_.deaths * tick)) {
      die(*from);
      at(now_ + up_to(20s), [this, machine = from.get()] {
        if (!machine->up) {
          machine->up = true;
          boot(*machine);
        }
      });
    }
    if (from->up && from->leads && from->live && chance(options_.failures * tick)) {
      log(*from, "a worker fails");
      stop_attempt(*from);
    }
  }
  if (chance(options_.islands * tick)) {
    std::vector<std::pair<int, int>> links;
    std::vector<bool> side;
    for (int i = 0; i < options_.machines; ++i) {
      side.push_back(chance(0.5));
    }
    for (int a = 0; a < options_.machines; ++a) {
      for (int b = 0; b < options_.machines; ++b) {
        if (side[static_cast<std::size_t>(a)] != side[static_cast<std::size_t>(b)]) {
          links.emplace_back(a, b);
        }
      }
    }
    cut_.insert(links.begin(), links.end());
    log(*machines_[0], "a cut through the network");
    at(now_ + up_to(15s), [this, links] {
      for (const auto& link : links) {
        cut_.erase(link);
      }
    });
  }
  at(now_ + kTick, [this] { faults(); });
}

// ---- the agent -----------------------------------------------------------------------------

/// A connection to a coordinator that said who it is.
void ElectionModel::join(Machine& machine, Machine& coordinator, Term term, Instant called) {
  if (machine.leads || machine.coordinator || !machine.elector.follow(term)) {
    return;
  }
  machine.candidacy.reset();
  machine.coordinator = coordinator.index;
  machine.saw_close = false;
  machine.connection = ++connections_;
  machine.lease_until = now_ + kLease;
  machine.echo.reset();
  send(machine, coordinator,
       [this, index = machine.index, id = machine.id, term, connection = machine.connection,
        called](Machine& to) {
         if (to.leads && to.term == term) {
           if (to.followers.contains(index)) {
             drop(to, index);  // of its connection before
           }
           to.followers[index] = {id, connection};
           to.heard[index] = now_;
           to.fresh[index] = called;
           log(to, "is followed by m" + std::to_string(index));
           if (to.members.empty()) {
             to.planned.reset();  // another plan is needed
             go_on(to);
           } else {
             stop_attempt(to);  // growth
           }
         }
       });
}

/// Says that it lives, and learns how fresh the coordinator's quorum is.
void ElectionModel::beat(Machine& machine) {
  later(machine, kBeat, [this](Machine& self) { beat(self); });
  check_lease(machine);
  for (const auto& [follower, heard] : std::map(machine.heard)) {
    if (machine.leads && now_ - heard >= kHeartbeat) {
      drop(machine, follower);
    }
  }
  if (!machine.coordinator) {
    return;
  }
  Machine& coordinator = *machines_[static_cast<std::size_t>(*machine.coordinator)];
  send(machine, coordinator,
       [this, &machine, sent = now_, echo = machine.echo,
        connection = machine.connection](Machine& to) {
         if (!follows(to, machine.index, connection)) {
           return;
         }
         to.heard[machine.index] = now_;
         if (echo) {
           hear(to, machine.index, *echo);
         }
         const Instant age = now_ - quorum_contact(to);
         send(to, machine, [this, sent, age, answered = now_, connection](Machine& self) {
           if (self.connection == connection && self.coordinator) {
             self.echo = answered;
             self.lease_until = std::max(self.lease_until, sent + kLease - age);
             check_lease(self);
           }
         });
       });
}

/// The lease ends all that this machine does for its coordinator; one that hears nothing at all has
/// lost it.
void ElectionModel::check_lease(Machine& machine) {
  if (machine.leads) {
    if (now_ >= quorum_contact(machine) + kLease && machine.live) {
      log(machine, "has no quorum any more");
      stop_attempt(machine);
      stop_workers(machine);
    }
    return;
  }
  if (!machine.coordinator) {
    return;
  }
  if (now_ >= machine.lease_until) {
    leave_coordinator(machine, false);
    return;
  }
  later(machine, machine.lease_until - now_, [this](Machine& self) { check_lease(self); });
}

/// Its workers first: who hears that this machine left may start others.
void ElectionModel::leave_coordinator(Machine& machine, bool saw_close) {
  if (!machine.coordinator) {
    return;
  }
  machine.saw_close = machine.saw_close || saw_close;
  if (!machine.live) {
    lose_coordinator(machine);
    return;
  }
  machine.leaving = true;
  stop_workers(machine);
}

void ElectionModel::lose_coordinator(Machine& machine) {
  log(machine, "lost its coordinator");
  Machine& old = *machines_[static_cast<std::size_t>(*machine.coordinator)];
  machine.coordinator.reset();
  machine.leaving = false;
  send(machine, old, [this, index = machine.index, connection = machine.connection](Machine& to) {
    if (follows(to, index, connection)) {
      drop(to, index);
    }
  });
  machine.connection = ++connections_;
  machine.elector.lost(now_, machine.saw_close);
  if (machine.succession) {
    machine.candidacy = std::make_unique<Candidacy>(machine.id, *machine.succession, machine.place,
                                                    kTimes, machine.elector.term(), now_);
    pursue(machine);
  }
  later(machine, 10s, [this](Machine& self) { seek(self); });
}

/// SIGKILL at the latest kKill later.
void ElectionModel::stop_workers(Machine& machine) {
  if (!machine.live) {
    return;
  }
  const AttemptNumber attempt = *machine.live;
  if (machine.dying == attempt) {
    return;
  }
  machine.dying = attempt;
  later(machine, up_to(kKill), [this, attempt](Machine& self) {
    self.dying.reset();
    if (self.live != attempt) {
      return;
    }
    self.live.reset();
    if (self.leads) {
      stopped(self, self.index, attempt);
    } else if (self.leaving) {
      lose_coordinator(self);
    } else if (self.coordinator) {
      report_stopped(self, attempt);
    }
  });
}

void ElectionModel::report_stopped(Machine& machine, AttemptNumber attempt) {
  send(machine, *machines_[static_cast<std::size_t>(*machine.coordinator)],
       [this, index = machine.index, connection = machine.connection, attempt](Machine& to) {
         if (follows(to, index, connection)) {
           stopped(to, index, attempt);
         }
       });
}

bool ElectionModel::follows(const Machine& coordinator, int index, std::uint64_t connection) const {
  const auto found = coordinator.followers.find(index);
  return coordinator.leads && found != coordinator.followers.end() &&
         found->second.connection == connection;
}

/// An order to a follower, by its connection.
void ElectionModel::order(Machine& machine, int follower, std::function<void(Machine&)> what) {
  const auto connection = machine.followers.at(follower).connection;
  send(machine, *machines_[static_cast<std::size_t>(follower)],
       [connection, what = std::move(what)](Machine& self) {
         if (self.connection == connection) {
           what(self);
         }
       });
}

void ElectionModel::start_workers(Machine& machine, AttemptNumber attempt) {
  if (machine.live) {
    broken("m" + std::to_string(machine.index) + " starts an attempt while one lives");
    return;
  }
  machine.live = attempt;
  for (const auto& other : machines_) {
    if (other->up && other->live && *other->live != attempt) {
      broken("attempts " + std::to_string(number(attempt)) + " and " +
             std::to_string(number(*other->live)) + " live at once, on m" +
             std::to_string(machine.index) + " and m" + std::to_string(other->index));
    }
  }
}

void ElectionModel::pursue(Machine& machine) {
  if (!machine.candidacy || machine.coordinator || machine.leads) {
    return;
  }
  Candidacy& candidacy = *machine.candidacy;
  if (candidacy.time_passed(now_)) {
    const VoteRequest request = candidacy.request();
    for (const ElectorId elector : candidacy.electorate()) {
      if (candidacy.granted_by(elector)) {
        continue;
      }
      for (auto& other : machines_) {
        if (!other->up || other->id != elector) {
          continue;
        }
        send(machine, *other, [this, request, &machine, elector](Machine& to) {
          if (to.id != elector || to.leads) {
            return;
          }
          const Vote vote = to.elector.answer(now_, request);
          send(to, machine, [this, vote, elector](Machine& self) {
            if (self.candidacy && !self.leads) {
              self.candidacy->on_vote(now_, elector, vote);
              pursue(self);
            }
          });
        });
      }
    }
  }
  if (candidacy.state() == Candidacy::State::leading) {
    ++takeovers_;
    const Succession known = *machine.succession;
    lead(machine, candidacy.request().term, candidacy.first_attempt(), known);
    return;
  }
  if (const auto deadline = candidacy.next_deadline()) {
    later(machine, *deadline - now_, [this](Machine& self) {
      if (self.candidacy && self.candidacy->next_deadline() &&
          *self.candidacy->next_deadline() <= now_) {
        pursue(self);
      }
    });
  }
}

/// Nobody called: looks for the coordinator as a new elector, whose vote of before is another's.
void ElectionModel::seek(Machine& machine) {
  if (machine.coordinator || machine.leads) {
    return;
  }
  later(machine, 1s, [this](Machine& self) { seek(self); });
  for (auto& other : machines_) {
    if (other.get() == &machine || !other->up) {
      continue;
    }
    send(machine, *other, [this, &machine](Machine& to) {
      if (!to.leads) {
        return;
      }
      send(to, machine, [this, &to, term = to.term, called = now_](Machine& self) {
        if (self.coordinator || self.leads) {
          return;
        }
        self.id = ElectorId{random_()};
        self.elector = Elector{};
        self.succession.reset();
        self.candidacy.reset();
        join(self, to, term, called);
      });
    });
  }
}

}  // namespace ddprun::sim
