#include "rendezvous/control/leader_calls.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "rendezvous/base/held_signals.h"
#include "rendezvous/control/peer_rpc.h"

namespace ddprun {

using boost::asio::ip::tcp;
using boost::system::error_code;

/// An endpoint of the job where no agent of this process listens. An agent that started there
/// during an election gathers nodes as for a new job, and does not know this leader: the call
/// reaches it.
struct LeaderCalls::Place {
  Place(boost::asio::io_context& io, Endpoint the_endpoint)
      : endpoint(std::move(the_endpoint)), resolver(io) {}
  Endpoint endpoint;
  tcp::resolver resolver;
  bool busy = false;  ///< resolving or calling
  std::shared_ptr<void> call;
};

std::shared_ptr<LeaderCalls> LeaderCalls::create(boost::asio::io_context& io,
                                                 const std::vector<Endpoint>& endpoints,
                                                 std::chrono::milliseconds patience,
                                                 Credentials credentials, Answered answered) {
  return std::shared_ptr<LeaderCalls>(
      new LeaderCalls(io, endpoints, patience, std::move(credentials), std::move(answered)));
}

LeaderCalls::LeaderCalls(boost::asio::io_context& io, const std::vector<Endpoint>& endpoints,
                         std::chrono::milliseconds patience, Credentials credentials,
                         Answered answered)
    : io_(io),
      patience_(patience),
      credentials_(std::move(credentials)),
      answered_(std::move(answered)) {
  for (const Endpoint& one : endpoints) {
    places_.push_back(std::make_unique<Place>(io, one));
  }
}

LeaderCalls::~LeaderCalls() = default;

void LeaderCalls::carry_out(const CallVoters& order) {
  for (const auto& [voter, call] : order.calls) {
    // Leader repeats its calls at intervals; a slow one is still under way then.
    if (voter_calls_.contains(voter.voter)) {
      continue;
    }
    voter_calls_[voter.voter] = rpc_to_peer(
        io_,
        {voter.addresses, voter.port, call, patience_,
         [id = voter.voter](const message::Message& said) {
           // Another agent may have one of the addresses, as docker0's: its answer does not count.
           const auto* moved = std::get_if<message::Moved>(&said);
           return moved != nullptr && moved->from == id ? PeerQuestion::From::asked
                                                        : PeerQuestion::From::unknown;
         },
         credentials_},
        [weak = weak_from_this(), voter = voter](const PeerAnswer& answer) {
          const auto self = weak.lock();
          if (!self) {
            return;
          }
          // Released later: the call would be destroyed inside of its own callback.
          boost::asio::post(self->io_, [old = std::move(self->voter_calls_[voter.voter])] {});
          self->voter_calls_.erase(voter.voter);
          if (const auto* moved =
                  answer.said ? std::get_if<message::Moved>(&*answer.said) : nullptr) {
            self->answered_({voter, moved->term, moved->instance});
          }
        });
  }
}

void LeaderCalls::carry_out(const CallEndpoints& order) {
  for (const auto& place : places_) {
    if (!std::exchange(place->busy, true)) {
      resolve(*place, order.call);
    }
  }
}

/// Anew for each call: a name may mean another machine by now, as a pod's does after a restart. The
/// places stay where they are while this object lives, and the handlers check that first.
void LeaderCalls::resolve(Place& place, const message::Follow& news) {
  const std::string& host = place.endpoint.host;
  error_code not_numeric;
  boost::asio::ip::make_address(host, not_numeric);
  if (!not_numeric) {
    call(place, {host}, news);
    return;
  }
  const HeldSignals held;
  place.resolver.async_resolve(host, "",
                               [weak = weak_from_this(), &place, news](
                                   error_code failed, const tcp::resolver::results_type& all) {
                                 const auto self = weak.lock();
                                 if (!self) {
                                   return;
                                 }
                                 std::vector<std::string> addresses;
                                 for (const auto& one : all) {
                                   addresses.push_back(one.endpoint().address().to_string());
                                 }
                                 if (failed || addresses.empty()) {
                                   place.busy = false;
                                 } else {
                                   self->call(place, std::move(addresses), news);
                                 }
                               });
}

/// An agent of another job may be there. Its answer has that job's instance, and Leader ignores it.
void LeaderCalls::call(Place& place, std::vector<std::string> addresses,
                       const message::Follow& news) {
  place.call = rpc_to_peer(
      io_, {addresses, place.endpoint.port, news, patience_, {}, credentials_},
      [weak = weak_from_this(), &place, addresses](const PeerAnswer& answer) {
        const auto self = weak.lock();
        if (!self) {
          return;
        }
        boost::asio::post(self->io_, [old = std::move(place.call)] {});
        place.busy = false;
        if (const auto* moved =
                answer.said ? std::get_if<message::Moved>(&*answer.said) : nullptr) {
          self->answered_(
              {{moved->from, {}, addresses, place.endpoint.port}, moved->term, moved->instance});
        }
      });
}

}  // namespace ddprun
