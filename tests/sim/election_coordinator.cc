// The coordinator of the election model.
#include <algorithm>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/quorum.h"
#include "tests/sim/election_machine.h"

namespace ddprun::sim {

// ---- the coordinator -----------------------------------------------------------------------

void ElectionModel::lead(Machine& machine, Term term, AttemptNumber next, const Succession& known) {
  log(machine, "leads term " + std::to_string(number(term)));
  if (!terms_.emplace(number(term), machine.index).second) {
    broken("two coordinators of term " + std::to_string(number(term)));
  }
  machine.candidacy.reset();
  machine.succession.reset();
  machine.coordinator.reset();
  machine.leads = true;
  machine.term = term;
  machine.next = next;
  machine.followers.clear();
  machine.heard.clear();
  machine.fresh.clear();
  machine.members.clear();
  machine.stopping = false;
  machine.planned.reset();
  machine.state = known;
  machine.state.term = term;
  machine.state.coordinator = machine.id;
  machine.newest_roster = known.roster.number;
  machine.connection = ++connections_;
  machine.followers[machine.index] = {machine.id, machine.connection};
  call(machine);
  go_on(machine);
}

/// Tells everybody who leads, as long as it does. A coordinator of an older term steps down.
void ElectionModel::call(Machine& machine) {
  for (auto& other : machines_) {
    if (other->index == machine.index || !other->up || machine.followers.contains(other->index)) {
      continue;
    }
    send(machine, *other, [this, &machine, term = machine.term, called = now_](Machine& to) {
      if (to.leads) {
        if (to.term < term) {
          step_down(to);
        }
        return;
      }
      if (to.coordinator && to.elector.term() < term) {
        leave_coordinator(to, false);
      }
      if (!to.live) {
        join(to, machine, term, called);
      }
    });
  }
  later(machine, 500ms, [this, term = machine.term](Machine& self) {
    if (self.leads && self.term == term) {
      call(self);
    }
  });
}

void ElectionModel::step_down(Machine& machine) {
  log(machine, "steps down");
  stop_workers(machine);
  machine.leads = false;
  machine.id = ElectorId{random_()};
  machine.elector = Elector{};
  for (auto& other : machines_) {
    if (other->up && other->coordinator == machine.index) {
      const auto connection = other->connection;
      send(machine, *other, [this, connection](Machine& to) {
        if (to.connection == connection) {
          leave_coordinator(to, false);  // it said that it leaves
        }
      });
    }
  }
  seek(machine);
}

void ElectionModel::hear(Machine& machine, int follower, Instant echoed) {
  Instant& fresh = machine.fresh[follower];
  fresh = std::max(fresh, echoed);
}

/// When it last was in touch with a quorum of the roster in use.
Instant ElectionModel::quorum_contact(const Machine& machine) const {
  const Roster& roster = machine.state.roster;
  std::vector<Instant> fresh;
  bool in_roster = false;
  for (const auto& [follower, who] : machine.followers) {
    if (std::find(roster.electors.begin(), roster.electors.end(), who.id) ==
        roster.electors.end()) {
      continue;
    }
    if (follower == machine.index) {
      in_roster = true;
      fresh.push_back(now_);
    } else if (const auto found = machine.fresh.find(follower); found != machine.fresh.end()) {
      fresh.push_back(found->second);
    }
  }
  std::sort(fresh.rbegin(), fresh.rend());
  for (std::size_t count = 1; count <= fresh.size(); ++count) {
    if (keeps_quorum(count, roster.electors.size(), in_roster)) {
      return fresh[count - 1];
    }
  }
  return Instant::min() / 2;
}

bool ElectionModel::quorum_follows(const Machine& machine) const {
  const Roster& roster = machine.state.roster;
  if (roster.electors.empty()) {
    return machine.followers.size() == static_cast<std::size_t>(options_.machines);  // the start
  }
  std::size_t here = 0;
  bool in_roster = false;
  for (const auto& [follower, who] : machine.followers) {
    if (std::find(roster.electors.begin(), roster.electors.end(), who.id) !=
        roster.electors.end()) {
      ++here;
      in_roster = in_roster || follower == machine.index;
    }
  }
  return keeps_quorum(here, roster.electors.size(), in_roster);
}

void ElectionModel::drop(Machine& machine, int follower) {
  log(machine, "lost m" + std::to_string(follower));
  machine.followers.erase(follower);
  machine.heard.erase(follower);
  machine.fresh.erase(follower);
  machine.owe.erase(follower);
  if (machine.members.erase(follower) > 0) {
    stop_attempt(machine);
  }
  if (machine.planned) {
    machine.planned.reset();  // another plan is needed
  }
  go_on(machine);
}

void ElectionModel::stop_attempt(Machine& machine) {
  if (machine.members.empty() || machine.stopping) {
    return;
  }
  machine.stopping = true;
  const AttemptNumber attempt = machine.state.attempt;
  for (const int member : machine.members) {
    order(machine, member, [this, attempt, &machine](Machine& self) {
      if (self.live == attempt) {
        stop_workers(self);
      } else if (&self == &machine) {
        stopped(self, self.index, attempt);
      } else {
        report_stopped(self, attempt);
      }
    });
  }
}

void ElectionModel::stopped(Machine& machine, int follower, AttemptNumber attempt) {
  if (!machine.leads || machine.state.attempt != attempt) {
    return;
  }
  machine.members.erase(follower);
  if (!machine.stopping && !machine.members.empty()) {
    stop_attempt(machine);
  }
  go_on(machine);
}

/// Nothing of the last attempt is left: the next one, if a quorum is here.
void ElectionModel::go_on(Machine& machine) {
  if (!machine.leads || !machine.members.empty() || machine.live || machine.planned ||
      !quorum_follows(machine)) {
    return;
  }
  machine.stopping = false;
  std::vector<ElectorId> here;
  for (const auto& [follower, who] : machine.followers) {
    here.push_back(who.id);
  }
  std::sort(here.begin(), here.end());
  // A plan that came to nothing was told to some: then even the old roster has to be told anew.
  if (here == machine.state.roster.electors &&
      machine.newest_roster == machine.state.roster.number) {
    hand_out(machine);
    return;
  }
  machine.newest_roster = RosterNumber{number(machine.newest_roster) + 1};
  machine.planned = Roster{machine.newest_roster, here};
  inform(machine);
}

/// First the standbys.
void ElectionModel::inform(Machine& machine) {
  machine.preparing = false;
  machine.owe.clear();
  Succession succession{machine.term, machine.id, machine.state.attempt, *machine.planned,
                        machine.state.roster};
  std::size_t place = 0;
  for (const auto& [follower, who] : machine.followers) {
    if (follower == machine.index || place == kStandbys) {
      continue;
    }
    machine.owe.insert(follower);
    order(machine, follower, [this, succession, place, &machine](Machine& self) {
      self.succession = succession;
      self.place = place;
      send(self, machine, [this, index = self.index, plan = succession.roster](Machine& to) {
        if (to.leads && to.planned == plan && to.owe.erase(index) > 0 && to.owe.empty() &&
            !to.preparing) {
          prepare(to);
        }
      });
    });
    ++place;
  }
  if (machine.owe.empty()) {
    prepare(machine);
  }
}

/// Then a quorum of the roster in use.
void ElectionModel::prepare(Machine& machine) {
  machine.preparing = true;
  announced_ = *machine.planned;
  machine.prepared = {machine.index};
  const auto enough = [this](Machine& self) {
    const Roster& roster = self.state.roster;
    std::size_t here = 0;
    bool in_roster = false;
    for (const int one : self.prepared) {
      if (self.followers.contains(one) &&
          std::find(roster.electors.begin(), roster.electors.end(), self.followers[one].id) !=
              roster.electors.end()) {
        ++here;
        in_roster = in_roster || one == self.index;
      }
    }
    if (roster.electors.empty() || keeps_quorum(here, roster.electors.size(), in_roster)) {
      hand_out(self);
    }
  };
  for (const auto& [follower, who] : machine.followers) {
    if (follower == machine.index) {
      continue;
    }
    order(machine, follower,
          [this, enough, plan = *machine.planned, &machine, asked = now_](Machine& self) {
            self.elector.prepared(plan.number);
            send(self, machine,
                 [this, enough, plan, index = self.index, asked](Machine& coordinator) {
                   if (coordinator.leads && coordinator.planned == plan) {
                     coordinator.prepared.insert(index);
                     hear(coordinator, index, asked);
                     enough(coordinator);
                   }
                 });
          });
  }
  enough(machine);
}

void ElectionModel::hand_out(Machine& machine) {
  if (machine.planned) {
    machine.state.roster_before = machine.state.roster;
    machine.state.roster = *machine.planned;
    machine.planned.reset();
  }
  newest_ = machine.state.roster;
  newest_coordinator_ = machine.id;
  const AttemptNumber attempt = machine.next;
  machine.next = AttemptNumber{number(attempt) + 1};
  machine.state.attempt = attempt;
  log(machine, "hands out attempt " + std::to_string(number(attempt)));
  const std::pair<std::uint32_t, int> owner{number(machine.term), machine.index};
  if (!attempts_.emplace(number(attempt), owner).second) {
    broken("attempt " + std::to_string(number(attempt)) + " was used before");
  }
  machine.stopping = false;
  for (const auto& [follower, who] : machine.followers) {
    DDP_CHECK(std::find(machine.state.roster.electors.begin(), machine.state.roster.electors.end(),
                        who.id) != machine.state.roster.electors.end(),
              "a world is handed out to its roster");
    machine.members.insert(follower);
    order(machine, follower,
          [this, attempt, roster = machine.state.roster.number, &machine](Machine& self) {
            if (&self == &machine) {
              if (!self.stopping) {
                start_workers(self, attempt);
              }
            } else if (!self.leaving && now_ < self.lease_until) {
              self.elector.assigned(roster, attempt);
              start_workers(self, attempt);
            }
          });
  }
}

}  // namespace ddprun::sim
