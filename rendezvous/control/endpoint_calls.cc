#include "rendezvous/control/endpoint_calls.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "rendezvous/control/peer_rpc.h"

namespace ddprun {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

/// An agent that its supervisor restarts is there after a tenth of a second, or much later.
constexpr std::chrono::milliseconds kCallIntervalFirst{500};
constexpr std::chrono::milliseconds kCallIntervalMax{2'000};

}  // namespace

std::shared_ptr<EndpointCalls> EndpointCalls::begin(boost::asio::io_context& io,
                                                    EndpointCallsSource source,
                                                    std::chrono::milliseconds patience) {
  auto calls = std::shared_ptr<EndpointCalls>(new EndpointCalls(io, std::move(source), patience));
  calls->call_all();
  return calls;
}

EndpointCalls::EndpointCalls(boost::asio::io_context& io, EndpointCallsSource source,
                             std::chrono::milliseconds patience)
    : io_(io),
      source_(std::move(source)),
      patience_(patience),
      timer_(io),
      interval_(kCallIntervalFirst) {
  for (const Endpoint& one : source_.endpoints) {
    places_.push_back(std::make_unique<Place>(io, one));
  }
}

void EndpointCalls::call_all() {
  if (source_.misses_nodes()) {
    for (const auto& place : places_) {
      if (!std::exchange(place->busy, true)) {
        resolve(*place);
      }
    }
  }
  timer_.expires_after(interval_);
  interval_ = std::min(2 * interval_, kCallIntervalMax);
  timer_.async_wait([weak = weak_from_this()](error_code failed) {
    if (const auto self = weak.lock(); self && !failed) {
      self->call_all();
    }
  });
}

/// Anew for each call: a name may mean another machine by now.
void EndpointCalls::resolve(Place& place) {
  const std::string& host = place.endpoint.host;
  error_code not_numeric;
  boost::asio::ip::make_address(host, not_numeric);
  if (!not_numeric) {
    call(place, {host});
    return;
  }
  place.resolver.async_resolve(
      host, "",
      [weak = weak_from_this(), &place](error_code failed, const tcp::resolver::results_type& all) {
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
          self->call(place, std::move(addresses));
        }
      });
}

/// The answer decides nothing: an agent of another job may be there.
void EndpointCalls::call(Place& place, std::vector<std::string> addresses) {
  place.call = rpc_to_peer(io_, std::move(addresses), place.endpoint.port, source_.news(),
                           patience_, [weak = weak_from_this(), &place](const PeerAnswer&) {
                             if (const auto self = weak.lock()) {
                               // Not here: the call would end inside its own answer.
                               boost::asio::post(self->io_, [call = std::move(place.call)] {});
                               place.busy = false;
                             }
                           });
}

}  // namespace ddprun
