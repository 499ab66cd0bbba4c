// ServiceSearch: how an agent without a coordinator finds one by a consensus service: it asks again
// and again who leads, and tries to lead where nobody does.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <memory>
#include <optional>

#include "rendezvous/consensus/consensus_service.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/node/node.h"
#include "rendezvous/protocol/message.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

class ServiceSearch : public std::enable_shared_from_this<ServiceSearch> {
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
  static std::shared_ptr<ServiceSearch> create(boost::asio::io_context& io,
                                               std::shared_ptr<ConsensusService> service,
                                               Handler& handler,
                                               std::shared_ptr<spdlog::logger> log);
  ~ServiceSearch();

  /// Of that term the leader is dead, if any; so is each before it.
  void start(std::optional<Term> dead, const NodeDescription& self);
  void stop();

 private:
  struct Pause;  ///< a timer

  ServiceSearch(boost::asio::io_context& io, std::shared_ptr<ConsensusService> service,
                Handler& handler, std::shared_ptr<spdlog::logger> log);
  void ask();
  void answered(const Result<ServiceView>& view);
  void try_to_lead(const ServiceView& view);
  void appointed(const ServiceView& view, const LeaderRecord& own);
  void ask_later(std::chrono::milliseconds pause);
  void warn_once(const std::string& why);

  std::shared_ptr<ConsensusService> service_;
  Handler& handler_;
  std::shared_ptr<spdlog::logger> log_;
  std::unique_ptr<Pause> pause_;
  std::optional<Term> dead_;
  NodeDescription self_;
  unsigned search_ = 0;  ///< what is answered to an earlier one counts for nothing
  bool searches_ = false;
  std::string warned_of_;
};

}  // namespace ddprun
