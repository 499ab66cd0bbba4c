// The part of Node that stands for election: it carries votes between Election and the network.
#include <algorithm>

#include "rendezvous/base/text.h"
#include "rendezvous/node/node.h"
#include "rendezvous/node/peer_addresses.h"

namespace ddprun {

void Node::begin_election() {
  if (const auto& stored = known_.stored()) {
    election_.emplace(node_.voter, stored->replicated, static_cast<std::size_t>(stored->place),
                      ElectionTimeouts::of(stored->heartbeat_timeout),
                      known_.voter().promise().term, now_);
  }
}

void Node::on(const VoteReceived& input) {
  if (state_ == State::searching && election_) {
    election_->on_vote(now_, input.from, input.vote);
    run_election();
  }
}

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
    actions_.emplace_back(LogLine{
        true, "no node can take over as the coordinator: " + election_->progress_text() +
                  "; waiting for the others for up to " + seconds_text(time_left()) + " more"});
  }
}

void Node::ask_all() {
  const VoteRequest request = election_->request();
  const std::vector<message::VoterAddress>& nodes = known_.stored()->nodes;
  AskVotes asked{request, {}};
  for (const VoterId one : std::vector(election_->voters())) {
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

}  // namespace ddprun
