// ServiceSearchShell: does for ServiceSearch in the simulation what control/service_lookup does.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "rendezvous/node/service_search.h"

namespace ddprun::sim {

class Machine;
class ServiceClient;

class ServiceSearchShell {
 public:
  /// To Node: whether this agent leads then.
  using Tell = std::function<bool(NodeInput input)>;

  ServiceSearchShell(Machine& machine, ServiceClient& client, Tell tell);
  ~ServiceSearchShell();
  ServiceSearchShell(const ServiceSearchShell&) = delete;
  ServiceSearchShell& operator=(const ServiceSearchShell&) = delete;

  void start(std::optional<DeadLeader> dead, const NodeDescription& self);
  void stop() { step(service_search::Stopped{}); }

 private:
  void step(service_search::Input input);
  void arm();
  void carry_out(const service_search::ReadService& order);
  void carry_out(const service_search::TryToLead& order);
  void carry_out(const service_search::TellNode& order);
  void carry_out(const service_search::Resign& order);
  void carry_out(const LogLine& order);

  Machine& machine_;
  ServiceClient& client_;
  Tell tell_;
  ServiceSearch search_;
  std::optional<Instant> armed_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);
};

}  // namespace ddprun::sim
