// The agent of the simulation as a candidate, and as the coordinator's host.
#include <algorithm>
#include <utility>

#include "tests/sim/cluster.h"
#include "tests/sim/machine.h"
#include "tests/sim/model_agent.h"

namespace ddprun::sim {

// --- Election -------------------------------------------------------------------------------

void ModelAgent::pursue() {
  if (state_ != State::seeking || !election_) {
    return;
  }
  if (election_->time_passed(machine_.now())) {
    ask_all();
  }
  if (election_->state() == Election::State::leading) {
    take_over();
    return;
  }
  if (const auto due = election_->next_deadline()) {
    machine_.later(std::max(*due - machine_.now(), Duration(0)), [this, due] {
      if (election_ && election_->next_deadline() == due) {
        pursue();
      }
    });
  }
}

void ModelAgent::ask_all() {
  const VoteRequest request = election_->request();
  Cluster& cluster = machine_.cluster();
  const int self = machine_.index();
  for (const VoterId one : std::vector(election_->voters())) {
    if (election_->granted_by(one)) {
      continue;
    }
    if (one == node_.voter) {
      election_->on_vote(machine_.now(), one, voter_.answer(machine_.now(), request));
      continue;
    }
    const auto with_election = [candidate = request.candidate](const auto& action) {
      return [candidate, action](ModelAgent& asker) {
        if (asker.node_.voter == candidate && asker.election_ && asker.state_ == State::seeking) {
          action(*asker.election_, asker.machine_.now());
          asker.pursue();
        }
      };
    };
    const auto question = [&cluster, self, one, request, with_election](ModelAgent& other) {
      if (other.coordinator_) {
        return;
      }
      const int place = other.machine_.index();
      const Vote vote = other.voter_.answer(other.machine_.now(), request);
      if (other.election_ && vote.verdict == VoteVerdict::granted) {
        other.election_->outvoted(other.machine_.now(), request.term);
      }
      if (cluster.tracing()) {
        cluster.log(place, "is asked by n" + std::to_string(self) + " for its vote of term " +
                               std::to_string(number(request.term)) + ": " +
                               std::to_string(static_cast<int>(vote.verdict)));
      }
      cluster.ask(place, self, with_election([one, vote](Election& mine, Instant now) {
                    mine.on_vote(now, one, vote);
                  }));
    };
    cluster.ask_voter(self, one, question, with_election([one](Election& mine, Instant now) {
                        mine.on_gone(now, one);
                      }));
  }
}

void ModelAgent::take_over() {
  const SimOptions& options = machine_.cluster().options();
  MembershipOptions led = membership_options(options);
  led.self = node_.voter;
  led.term = election_->request().term;
  TakeoverState inherited;
  inherited.known = election_->inheritance();
  inherited.first_attempt = election_->first_attempt();
  inherited.so_far = heir_story_;
  std::set<VoterId> votes;
  for (const VoterId one : election_->voters()) {
    if (election_->granted_by(one)) {
      votes.insert(one);
    }
  }
  inherited.expected = static_cast<int>(votes.size());
  inherited.patience = options.heartbeat_timeout;
  inherited.lost_for = machine_.now() - contact_;
  inherited.why = "its connection closed";
  led.inheritance = std::move(inherited);
  election_.reset();
  called_.reset();
  machine_.cluster().count_takeover();
  if (machine_.cluster().tracing()) {
    machine_.cluster().log(machine_.index(), "leads term " + std::to_string(number(led.term)));
  }
  lead(std::move(led), votes);
  announcer(milliseconds(500));
}

void ModelAgent::lead(MembershipOptions options, const std::set<VoterId>& votes) {
  if (knocking_) {
    give_up_knocking();
  }
  if (!machine_.cluster().options().failover) {
    options.self = {};
  }
  coordinator_ = std::make_unique<ModelCoordinator>(machine_, options, [this] { depose(); });
  coordinator_->begin(votes);
  state_ = State::leading;
  node_.hosts_coordinator = true;
  followed_ = coordinator_->term();
  local_ = true;
  connection_ = machine_.cluster().network().connect(machine_.index(), machine_.index());
  coordinator_->connect_local(*connection_);
  begin_lease(machine_.now());
  node_.promise = voter_.promise();
  machine_.cluster().network().send(*connection_, Side::client, Hello{node_});
}

/// Tells voters that do not follow who leads, less and less often.
void ModelAgent::announcer(Duration pause) {
  if (!coordinator_ || state_ != State::leading) {
    return;
  }
  Cluster& cluster = machine_.cluster();
  const Called news{coordinator_->term(), machine_.index()};
  for (const VoterId one : coordinator_->absent_voters()) {
    const int place = cluster.machine_of(one);
    if (place != machine_.index()) {
      cluster.ask(machine_.index(), place, [news](ModelAgent& other) { other.on_call(news); });
    }
  }
  machine_.later(pause, [this, pause, which = coordinator_.get()] {
    if (coordinator_.get() == which) {
      announcer(std::min<Duration>(2 * pause, seconds(5)));
    }
  });
}

}  // namespace ddprun::sim
