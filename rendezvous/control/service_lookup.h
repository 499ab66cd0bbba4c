// ServiceLookup: the thin shell around ServiceSearch (node/service_search.h): it asks the consensus
// service for it, tells Node for it, and keeps its timer.
#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <optional>

#include "rendezvous/consensus/consensus_service.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/node/service_search.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

class ServiceLookup : public std::enable_shared_from_this<ServiceLookup> {
 public:
  /// Who searches; outlives this. Called on the loop, never from within start() or stop().
  class Handler {
   public:
    Handler() = default;
    Handler(const Handler&) = delete;
    Handler& operator=(const Handler&) = delete;
    virtual ~Handler() = default;
    /// CalledByLeader or Appointed. Whether this agent leads now.
    virtual bool on_service(NodeInput said) = 0;
  };

  /// Without a service there is nothing to start().
  static std::shared_ptr<ServiceLookup> create(boost::asio::io_context& io,
                                               std::shared_ptr<ConsensusService> service,
                                               Handler& handler,
                                               std::shared_ptr<spdlog::logger> log);
  ~ServiceLookup();

  /// `dead`: the leader that was followed before, if it is.
  void start(std::optional<DeadLeader> dead, const NodeDescription& self);
  void stop();

 private:
  struct Timer;

  ServiceLookup(boost::asio::io_context& io, std::shared_ptr<ConsensusService> service,
                Handler& handler, std::shared_ptr<spdlog::logger> log);
  void step(service_search::Input input);
  void arm();
  void carry_out(const service_search::ReadService& order);
  void carry_out(const service_search::TryToLead& order);
  void carry_out(service_search::TellNode order);
  void carry_out(const service_search::Resign& order);
  void carry_out(const LogLine& order);

  std::shared_ptr<ConsensusService> service_;
  Handler& handler_;
  std::shared_ptr<spdlog::logger> log_;
  ServiceSearch search_;
  std::unique_ptr<Timer> timer_;
  std::optional<Instant> armed_for_;
};

}  // namespace ddprun
