// The agent of the simulation as a candidate, and as the coordinator's host.
#include <algorithm>
#include <utility>

#include "tests/sim/cluster.h"
#include "tests/sim/machine.h"
#include "tests/sim/model_agent.h"

namespace ddprun::sim {

// --- Standing for it ------------------------------------------------------------------------

void ModelAgent::pursue() {
  if (state_ != State::seeking || !candidacy_) {
    return;
  }
  if (candidacy_->time_passed(machine_.now())) {
    ask_all();
  }
  if (candidacy_->state() == Candidacy::State::leading) {
    take_over();
    return;
  }
  if (const auto due = candidacy_->next_deadline()) {
    machine_.later(std::max(*due - machine_.now(), Duration(0)), [this, due] {
      if (candidacy_ && candidacy_->next_deadline() == due) {
        pursue();
      }
    });
  }
}

void ModelAgent::ask_all() {
  const VoteRequest request = candidacy_->request();
  Cluster& cluster = machine_.cluster();
  const int self = machine_.index();
  for (const ElectorId one : std::vector(candidacy_->electorate())) {
    if (candidacy_->granted_by(one)) {
      continue;
    }
    if (one == node_.elector) {
      candidacy_->on_vote(machine_.now(), one, elector_.answer(machine_.now(), request));
      continue;
    }
    const auto with_candidacy = [candidate = request.candidate](const auto& action) {
      return [candidate, action](ModelAgent& asker) {
        if (asker.node_.elector == candidate && asker.candidacy_ &&
            asker.state_ == State::seeking) {
          action(*asker.candidacy_, asker.machine_.now());
          asker.pursue();
        }
      };
    };
    const auto question = [&cluster, self, one, request, with_candidacy](ModelAgent& other) {
      if (other.coordinator_) {
        return;
      }
      const int place = other.machine_.index();
      const Vote vote = other.elector_.answer(other.machine_.now(), request);
      if (other.candidacy_ && vote.verdict == VoteVerdict::granted) {
        other.candidacy_->outvoted(other.machine_.now(), request.term);
      }
      if (cluster.tracing()) {
        cluster.log(place, "is asked by n" + std::to_string(self) + " for its vote of term " +
                               std::to_string(number(request.term)) + ": " +
                               std::to_string(static_cast<int>(vote.verdict)));
      }
      cluster.ask(place, self, with_candidacy([one, vote](Candidacy& mine, Instant now) {
                    mine.on_vote(now, one, vote);
                  }));
    };
    cluster.ask_elector(self, one, question, with_candidacy([one](Candidacy& mine, Instant now) {
                          mine.on_gone(now, one);
                        }));
  }
}

void ModelAgent::take_over() {
  const SimOptions& options = machine_.cluster().options();
  MembershipOptions led = membership_options(options);
  led.self = node_.elector;
  led.term = candidacy_->request().term;
  Inheritance inherited;
  inherited.known = candidacy_->inheritance();
  inherited.first_attempt = candidacy_->first_attempt();
  inherited.so_far = heir_story_;
  std::set<ElectorId> votes;
  for (const ElectorId one : candidacy_->electorate()) {
    if (candidacy_->granted_by(one)) {
      votes.insert(one);
    }
  }
  inherited.expected = static_cast<int>(votes.size());
  inherited.patience = options.heartbeat_timeout;
  inherited.lost_for = machine_.now() - contact_;
  inherited.why = "its connection closed";
  led.inheritance = std::move(inherited);
  candidacy_.reset();
  called_.reset();
  machine_.cluster().count_takeover();
  if (machine_.cluster().tracing()) {
    machine_.cluster().log(machine_.index(), "leads term " + std::to_string(number(led.term)));
  }
  lead(std::move(led), votes);
  herald(milliseconds(500));
}

void ModelAgent::lead(MembershipOptions options, const std::set<ElectorId>& votes) {
  if (knocking_) {
    give_up_knocking();
  }
  if (!machine_.cluster().options().succession) {
    options.self = {};
  }
  coordinator_ = std::make_unique<ModelCoordinator>(machine_, options, [this] { depose(); });
  coordinator_->begin(votes);
  state_ = State::leading;
  node_.hosts_coordinator = true;
  followed_ = coordinator_->term();
  local_ = true;
  newest_stamp_ = {};
  connection_ = machine_.cluster().network().connect(machine_.index(), machine_.index());
  coordinator_->connect_local(*connection_);
  begin_beating();
  node_.pledge = elector_.pledge();
  machine_.cluster().network().send(*connection_, Side::client, Hello{node_});
}

/// Tells electors that do not follow who reigns, less and less often.
void ModelAgent::herald(Duration pause) {
  if (!coordinator_ || state_ != State::leading) {
    return;
  }
  Cluster& cluster = machine_.cluster();
  const Called news{coordinator_->term(), machine_.index()};
  for (const ElectorId one : coordinator_->absent_electors()) {
    const int place = cluster.machine_of(one);
    if (place != machine_.index()) {
      cluster.ask(machine_.index(), place, [news](ModelAgent& other) { other.on_call(news); });
    }
  }
  machine_.later(pause, [this, pause, which = coordinator_.get()] {
    if (coordinator_.get() == which) {
      herald(std::min<Duration>(2 * pause, seconds(5)));
    }
  });
}

}  // namespace ddprun::sim
