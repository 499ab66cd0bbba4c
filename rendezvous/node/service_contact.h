// ServiceContact: the consensus service as a voter that follows the coordinator for as long as
// nobody else can lead: when to look, what counts as contact, and to whom to give way. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/node/service_question.h"
#include "rendezvous/node/service_voter_io.h"

namespace ddprun {

class ServiceContact {
 public:
  /// What this process knows of the service.
  struct Reading {
    Instant leads_until{};  ///< ServiceTenure::leads_until()
    std::string trouble;    ///< why the newest question had no answer; empty: it had one
  };

  /// The heartbeat timeout is the coordinator's: by it the age of a contact is judged. `session`:
  /// as which the service has joined. `service`: its name, for people.
  ServiceContact(std::chrono::milliseconds heartbeat_timeout, NodeId session, std::string service);

  /// At the beginning, when next_deadline() has come, and after LookAtContact.
  ServiceVoterActions look(Instant now, const Reading& reading);
  /// After AskWhoLeads.
  ServiceVoterActions viewed(const Result<ServiceView>& view);
  [[nodiscard]] std::optional<Instant> next_deadline() const { return look_at_; }

 private:
  void tell_trouble(Instant now, const Reading& reading, ServiceVoterActions& actions);
  [[nodiscard]] std::string trouble_of(Instant now, const Reading& reading);

  std::chrono::milliseconds heartbeat_timeout_;
  NodeId session_;
  std::string service_;
  std::optional<Instant> look_at_;
  Instant leads_until_{};    ///< the latest so far
  Instant renewed_at_{};     ///< when that came
  bool in_trouble_ = false;  ///< and people have been told
  bool was_replaced_ = false;
};

}  // namespace ddprun
