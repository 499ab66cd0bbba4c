// ServiceVoterShell: does for ServiceContact and ServiceWriter in the simulation what
// control/service_voter does: the service as the voter of a coordinator.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "rendezvous/node/service_contact.h"
#include "rendezvous/node/service_writer.h"
#include "tests/sim/random.h"

namespace ddprun::sim {

class Machine;
class ServiceClient;

class ServiceVoterShell {
 public:
  using Tell = std::function<void(LeaderInput input)>;

  /// `tell` steps the coordinator. What is given outlives this.
  ServiceVoterShell(Machine& machine, ServiceClient& client, NodeId session,
                    Duration heartbeat_timeout, Tell tell);
  ~ServiceVoterShell();
  ServiceVoterShell(const ServiceVoterShell&) = delete;
  ServiceVoterShell& operator=(const ServiceVoterShell&) = delete;

  void join(NodeDescription witness);
  [[nodiscard]] NodeId session() const { return session_; }
  void take(const message::Message& told) { carry_out(writer_.take(told)); }
  void end_job();
  /// The coordinator leads no more.
  void leave();

 private:
  void carry_out(ServiceVoterActions actions);
  void carry_out(const TellLeader& order) { tell_(order.input); }
  void carry_out(const AskWhoLeads& order);
  void carry_out(const CommitState& order);
  void carry_out(const LookAtContact& /*order*/) { look(); }
  void carry_out(const LogLine& order);
  void look();
  void arm();
  void arm(std::optional<Instant>& armed, const std::optional<Instant>& due,
           void (ServiceVoterShell::*action)());
  void write_again();

  Machine& machine_;
  ServiceClient& client_;
  NodeId session_;
  ServiceContact contact_;
  ServiceWriter writer_;
  Tell tell_;
  std::optional<Instant> look_armed_;
  std::optional<Instant> write_armed_;
  bool stopped_ = false;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);
};

}  // namespace ddprun::sim
