#include "rendezvous/control/ballot.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace ddprun {

std::shared_ptr<Ballot> Ballot::open(boost::asio::io_context& io, std::string job_id,
                                     std::chrono::milliseconds patience, Hooks hooks) {
  return std::shared_ptr<Ballot>(new Ballot(io, std::move(job_id), patience, std::move(hooks)));
}

Ballot::Ballot(boost::asio::io_context& io, std::string job_id, std::chrono::milliseconds patience,
               Hooks hooks)
    : io_(io), job_id_(std::move(job_id)), patience_(patience), hooks_(std::move(hooks)) {}

void Ballot::ask(const message::ElectorAddress& elector, const VoteRequest& request) {
  const ElectorId id = elector.elector;
  if (calls_.contains(id)) {
    return;
  }
  calls_[id] =
      call_peer(io_, elector.addresses, elector.port, message::AskVote{job_id_, id, request},
                patience_, [weak = weak_from_this(), id](const PeerAnswer& answer) {
                  if (const auto self = weak.lock()) {
                    self->on_answer(id, answer);
                  }
                });
}

void Ballot::on_answer(ElectorId from, const PeerAnswer& answer) {
  // Not here: the call that answers would end inside its own answer.
  boost::asio::post(io_, [call = std::move(calls_[from])] {});
  calls_.erase(from);
  if (answer.refused) {
    hooks_.gone(from);
  } else if (const auto* vote =
                 answer.said ? std::get_if<message::VoteAnswer>(&*answer.said) : nullptr) {
    hooks_.voted(from, vote->vote);
  }
}

}  // namespace ddprun
