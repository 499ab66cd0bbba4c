// The part of Node that stands for election: it carries votes between Election and the network.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"
#include "rendezvous/node/node.h"
#include "rendezvous/node/peer_addresses.h"

namespace ddprun {

/// Only a voter stands: a learner does not store what it would have to continue. Voters begin in
/// turn, by their places, where Raft draws random timeouts (Ongaro's dissertation, section 3.4).
/// A node that is to leave stands after all others: as the coordinator it could not go.
void Node::begin_election() {
  DDP_CHECK(!election_, "a loss begins one election");
  if (options_.by_service) {
    return;  // who leads is not the nodes' to decide
  }
  if (const auto& stored = known_.stored()) {
    const std::size_t place = static_cast<std::size_t>(stored->place) + (leaves_ ? kVotersMax : 0);
    election_.emplace(node_.voter, stored->replicated, place,
                      ElectionTimeouts::of(stored->heartbeat_timeout),
                      known_.voter().promise().term, now_);
  }
}

/// While it stands, it stands anew: votes that it has won by now are void, as those of any earlier
/// term are.
void Node::on(const LeaveWished&) {
  if (std::exchange(leaves_, true) || state_ != State::searching || !election_) {
    return;
  }
  election_.reset();
  actions_.emplace_back(StopAsking{});
  begin_election();
}

/// Election ignores votes of another term, of a voter that has voted already, and of a node that is
/// no voter.
void Node::on(const VoteReceived& input) {
  if (state_ == State::searching && election_) {
    election_->on_vote(now_, input.from, input.vote);
    run_election();
  }
}

/// The world may have changed twice while this node was cut off. Then its leader does not know it,
/// and does not call it. The voters that it asks follow that leader, and refuse: they say where it
/// is. If nobody answers there, the search at the endpoints has its turn before the next such try.
void Node::on(const LeaderNamed& input) {
  const message::Moved& at = input.leader;
  const bool is_later = at.term > known_.term() && known_.follows_instance(at.instance);
  if (state_ != State::searching || called_ || !is_later || at.addresses.empty() ||
      now_ < named_again_at_) {
    return;
  }
  named_again_at_ = now_ + 2 * options_.heartbeat_timeout;
  actions_.emplace_back(LogLine{false, "a voter of the job follows the coordinator of term " +
                                           std::to_string(number(at.term))});
  called_ = message::Follow{node_.job_id, at.term,     at.addresses, at.port,
                            std::nullopt, at.instance, node_.voter};
  search();
}

/// Counts only at the end of a job: nodes that have the verdict exit, and without them there may be
/// no quorum.
void Node::on(const VoterGone& input) {
  if (state_ == State::searching && election_) {
    election_->on_gone(now_, input.voter);
    run_election();
  }
}

void Node::run_election() {
  if (state_ != State::searching || !election_) {
    return;
  }
  if (election_->time_passed(now_)) {
    ask_all();
  }
  if (election_->state() == Election::State::leading) {
    take_over();
  } else if (election_->lacks_voters(now_)) {
    actions_.emplace_back(
        LogLine{true, "no node can take over as the coordinator: " + election_->progress_text() +
                          "; waiting for the others for up to " + seconds_text(wait_.left(now_)) +
                          " more"});
  }
}

/// Asks all voters of all configurations that may be in use, itself by the same rules as any other.
/// It may have voted for another candidate of this term.
void Node::ask_all() {
  DDP_CHECK(election_ && known_.stored(), "a candidate stores the state of its job");
  const VoteRequest request = election_->request();
  const std::vector<message::VoterAddress>& nodes = known_.stored()->nodes;
  AskVotes asked{request, {}};
  for (const VoterId one : std::vector(election_->voters())) {
    // Asked again until it grants, for a request may be lost; a vote that is given stays.
    if (election_->granted_by(one)) {
      continue;
    }
    if (one == node_.voter) {
      election_->on_vote(now_, one, known_.voter().answer(now_, request));
    } else if (const auto place = std::find_if(nodes.rbegin(), nodes.rend(),  // the newest
                                               [one](const auto& at) { return at.voter == one; });
               place != nodes.rend()) {
      asked.voters.push_back(*place);
      asked.voters.back().addresses = addresses_to_try(place->addresses, node_.addresses);
    }
  }
  actions_.emplace_back(std::move(asked));
}

// --- By a consensus service -----------------------------------------------------------------

/// The election is won. The coordinator in this agent continues the same job, from the state that
/// this voter stores. Learners that are cut off may run workers still: its first world waits for
/// their leases (TakeoverState::leases_end_in).
void Node::take_over() {
  DDP_CHECK(election_ && election_->state() == Election::State::leading, "an election comes first");
  DDP_CHECK(known_.stored(), "a successor stores the state of its job");
  const message::VoterState known = *known_.stored();
  BeginLeading::Takeover takeover{
      known,
      election_->request().term,
      TakeoverState{election_->inheritance(), election_->first_attempt(), known.so_far,
                    static_cast<int>(election_->votes()), known.heartbeat_timeout,
                    std::max(election_->leases_end(), now_) - now_, now_ - loss_.at, lost_clause_,
                    now_ - known_.stored_at(), !loss_.saw_close},
      {}};
  std::copy_if(election_->voters().begin(), election_->voters().end(),
               std::back_inserter(takeover.votes),
               [this](VoterId one) { return election_->granted_by(one); });
  actions_.emplace_back(
      LogLine{true, fmt::format("this node is the coordinator from here on: term {}, {}",
                                number(takeover.term), election_->progress_text())});
  settle();
  lead({std::move(takeover), false, {}});
}

/// The service let no other lead before, and what the leader before committed is here. It may have
/// begun one attempt that it had not committed yet, and so may each leader in between; and while
/// the service was away it may have spent all restarts that were left.
void Node::on(Appointed input) {
  if (state_ != State::searching || input.term <= known_.term()) {
    return;  // the shell resigns: this node follows another by now
  }
  actions_.emplace_back(LogLine{
      input.state.has_value(),
      fmt::format("this node is the coordinator from here on: term {}", number(input.term))});
  settle();
  // The verdict of a job is for its own nodes; who never was in it begins another.
  const bool is_other = input.state && input.state->replicated.ends &&
                        !known_.follows_instance(input.state->replicated.instance);
  if (!input.state || is_other) {
    lead({std::nullopt, false, input.instance, input.term});
    return;
  }
  message::VoterState& state = *input.state;
  const std::uint32_t terms = number(input.term) - number(state.replicated.term);
  // Of the world; of all nodes that the state lists, some may be gone for long.
  const int others =
      known_.others_since(state.replicated).value_or(static_cast<int>(state.nodes.size()) - 1);
  const int expected = std::max(others + (known_.leader() == node_.voter ? 1 : 0), 1);
  const int unknown = std::max(state.max_restarts - state.so_far.restarts_used, 0);
  const auto told_ago = known_.update(state, now_);
  const std::uint32_t newest =
      std::max(number(state.replicated.attempt),
               known_.past() ? number(known_.past()->attempt) : std::uint32_t{0});
  const bool was_lost = loss_.contact != Instant{};
  // Others may have been in contact until the loss, and so for longer than this node.
  const Instant leases_end = wait_.lost_at() + state.heartbeat_timeout;
  // What the service keeps is the newest that anybody may have used: those before decide nothing,
  // and with each coordinator they would become more.
  ReplicatedState kept = state.replicated;
  kept.before.clear();
  TakeoverState takeover{std::move(kept),
                         AttemptNumber{newest + 2 * terms + static_cast<std::uint32_t>(unknown)},
                         state.so_far,
                         expected,
                         state.heartbeat_timeout,
                         {},
                         was_lost ? now_ - loss_.at : Instant{},
                         was_lost ? lost_clause_ : "no agent that was in it is left",
                         // A service does not know when it was given what it keeps.
                         told_ago.value_or(std::chrono::nanoseconds())};
  if (input.before_its_lease_ended) {
    takeover.leases_end_in = std::max(leases_end, now_) - now_;
  }
  lead({BeginLeading::Takeover{state, input.term, std::move(takeover), {}}, false, {}, {}});
}

}  // namespace ddprun
