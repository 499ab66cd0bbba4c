// EndpointCalls: a leader that is not at an endpoint of its job says there, at a bounded interval,
// where the job goes on: an agent that begins or gathers there finds it by that. Voters are called
// by leader_announcer.h; an agent that has just started is no voter, and nobody knows its port.
// Internal to control.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

struct EndpointCallsSource {
  std::vector<Endpoint> endpoints;        ///< the job's, without those where this agent listens
  std::function<message::Follow()> news;  ///< what is said now
  std::function<bool()> misses_nodes;     ///< otherwise nobody is called
};

class EndpointCalls : public std::enable_shared_from_this<EndpointCalls> {
 public:
  /// Begins at once; ends with the object. A call takes `patience` for each address at most.
  static std::shared_ptr<EndpointCalls> begin(boost::asio::io_context& io,
                                              EndpointCallsSource source,
                                              std::chrono::milliseconds patience);

 private:
  struct Place {
    Place(boost::asio::io_context& io, Endpoint the_endpoint)
        : endpoint(std::move(the_endpoint)), resolver(io) {}
    Endpoint endpoint;
    boost::asio::ip::tcp::resolver resolver;
    bool busy = false;  ///< resolving or calling
    std::shared_ptr<void> call;
  };

  EndpointCalls(boost::asio::io_context& io, EndpointCallsSource source,
                std::chrono::milliseconds patience);
  void call_all();
  void resolve(Place& place);
  void call(Place& place, std::vector<std::string> addresses);

  boost::asio::io_context& io_;
  EndpointCallsSource source_;
  std::chrono::milliseconds patience_;
  boost::asio::steady_timer timer_;
  std::chrono::milliseconds interval_;
  std::vector<std::unique_ptr<Place>> places_;
};

}  // namespace ddprun
