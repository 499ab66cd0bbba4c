#include "rendezvous/control/vote_collector.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>

namespace ddprun {

std::shared_ptr<VoteCollector> VoteCollector::open(boost::asio::io_context& io, std::string job_id,
                                                   std::chrono::milliseconds patience,
                                                   Credentials credentials, Hooks hooks) {
  return std::shared_ptr<VoteCollector>(
      new VoteCollector(io, std::move(job_id), patience, std::move(credentials), std::move(hooks)));
}

VoteCollector::VoteCollector(boost::asio::io_context& io, std::string job_id,
                             std::chrono::milliseconds patience, Credentials credentials,
                             Hooks hooks)
    : io_(io),
      job_id_(std::move(job_id)),
      patience_(patience),
      credentials_(std::move(credentials)),
      hooks_(std::move(hooks)) {}

/// One call per voter at a time. An election asks again at each of its steps, and a voter that does
/// not answer must not collect connections.
void VoteCollector::ask(const message::VoterAddress& voter, const VoteRequest& request) {
  const VoterId id = voter.voter;
  if (calls_.contains(id)) {
    return;
  }
  // Several hosts may have one of the addresses (docker0). The voter itself answers AskVote with a
  // vote, or with Moved where it has a coordinator; another agent answers Moved, with its own
  // number. That this voter is not there is an answer.
  const auto from = [id](const message::Message& said) {
    if (std::holds_alternative<message::VoteAnswer>(said)) {
      return PeerQuestion::From::asked;
    }
    const auto* moved = std::get_if<message::Moved>(&said);
    return moved == nullptr    ? PeerQuestion::From::unknown
           : moved->from == id ? PeerQuestion::From::asked
                               : PeerQuestion::From::another;
  };
  calls_[id] = rpc_to_peer(io_,
                           {voter.addresses, voter.port, message::AskVote{job_id_, id, request},
                            patience_, from, credentials_},
                           [weak = weak_from_this(), id](const PeerAnswer& answer) {
                             if (const auto self = weak.lock()) {
                               self->on_answer(id, answer);
                             }
                           });
}

void VoteCollector::on_answer(VoterId from, const PeerAnswer& answer) {
  // Released later: the call would be destroyed inside of its own callback.
  boost::asio::post(io_, [call = std::move(calls_[from])] {});
  calls_.erase(from);
  // No process of that voter is left at any of its addresses: it can vote for no other candidate.
  if (answer.refused) {
    hooks_.gone(from);
  } else if (const auto* vote =
                 answer.said ? std::get_if<message::VoteAnswer>(&*answer.said) : nullptr) {
    hooks_.voted(from, vote->vote);
  } else if (const auto* moved = answer.said ? std::get_if<message::Moved>(&*answer.said) : nullptr;
             moved != nullptr && moved->from == from) {
    hooks_.named(*moved);
  }
}

}  // namespace ddprun
