// ServiceWriter: keeps what a coordinator tells its voters in the consensus service, and
// acknowledges it for the service once it is there. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/node/service_voter_io.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

class ServiceWriter {
 public:
  /// `session`: as which the service has joined.
  ServiceWriter(NodeId session, std::chrono::milliseconds heartbeat_timeout)
      : session_(session), heartbeat_timeout_(heartbeat_timeout) {}

  /// The coordinator says this to the service.
  ServiceVoterActions take(const message::Message& told);
  /// Of CommitState. False: the service lets another process lead. An error is no answer. Until
  /// `leads_until` nobody else leads (ServiceTenure).
  ServiceVoterActions committed(Instant now, Instant leads_until, const Result<bool>& done);
  /// next_deadline() has come.
  ServiceVoterActions time_passed(Instant now, Instant leads_until);
  [[nodiscard]] std::optional<Instant> next_deadline() const { return look_at_; }

 private:
  void write(ServiceVoterActions& actions);
  void acknowledge(Instant now, Instant leads_until, ServiceVoterActions& actions);
  void failed(Instant now, Instant leads_until, const Error& why, ServiceVoterActions& actions);

  NodeId session_;
  std::chrono::milliseconds heartbeat_timeout_;
  // The state as it is to be, in frames, and what of it the service has.
  std::string voter_state_;
  std::string story_;  ///< the newest since then
  std::string nodes_;  ///< all since then
  std::optional<message::StateKept> to_acknowledge_;
  std::optional<message::StateKept> on_its_way_;  ///< what the service is asked to keep has this
  std::optional<message::StateKept> kept_;        ///< the service has it, and the leader knows not
  bool changed_ = false;
  bool writing_ = false;
  bool ends_ = false;               ///< the newest state is the job's end
  std::optional<Instant> look_at_;  ///< to write again, or to acknowledge
  std::string refused_why_;         ///< what people have been told of; empty: nothing
};

}  // namespace ddprun
