// ServiceSearch: how an agent without a coordinator finds one by a consensus service: it asks again
// and again who leads, and tries to lead where nobody does. Pure; its owner has the service and one
// timer (control/service_lookup).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/node/node.h"
#include "rendezvous/node/service_question.h"
#include "rendezvous/node/told_recently.h"

namespace ddprun {
namespace service_search {

// --- What happened --------------------------------------------------------------------------

/// Node wants that (AskService). The description is of this moment: its promise says what this node
/// has followed.
struct Started {
  std::optional<DeadLeader> dead;
  NodeDescription self;
  JobInstance drawn{};  ///< at random, for a new job
  /// How often the service is asked; each node without a coordinator does that.
  std::chrono::milliseconds ask_each{};
};
struct Stopped {};
/// What the service has.
struct Viewed {
  unsigned search = 0;  ///< ReadService's
  Result<ServiceView> view;
};
/// What came of TryToLead.
struct Tried {
  ServiceView seen;
  LeaderRecord self;
  Result<bool> leads;
};
/// After an Appointed: this node follows another one by now, so nobody would lead.
struct Unwanted {};
/// next_deadline() has come.
struct TimePassed {};

using Input = std::variant<Started, Stopped, Viewed, Tried, Unwanted, TimePassed>;

// --- What to do -----------------------------------------------------------------------------

/// Viewed follows.
struct ReadService {
  unsigned search = 0;
};
/// Tried follows, even where the search has ended meanwhile: this process may lead by then.
struct TryToLead {
  ServiceView seen;
  LeaderRecord self;
};
/// CalledByLeader, ServiceTrouble or Appointed; Unwanted follows an Appointed after which Node does
/// not lead.
struct TellNode {
  NodeInput input;
};
struct Resign {};

using Action = std::variant<ReadService, TryToLead, TellNode, Resign, LogLine>;

}  // namespace service_search

class ServiceSearch {
 public:
  /// `now` never goes back.
  std::vector<service_search::Action> step(Instant now, service_search::Input input);
  [[nodiscard]] std::optional<Instant> next_deadline() const { return ask_at_; }

 private:
  void on(service_search::Started input);
  void on(const service_search::Stopped& input);
  void on(const service_search::Viewed& input);
  void on(const service_search::Tried& input);
  void on(const service_search::Unwanted& input);
  void on(const service_search::TimePassed& input);

  void ask();
  void try_to_lead(const ServiceView& view);
  void failed(bool& trouble, const Error& why);
  void works(bool& trouble);

  Instant now_{};
  std::vector<service_search::Action> actions_;
  std::optional<Instant> ask_at_;
  std::optional<DeadLeader> dead_;
  NodeDescription self_;
  JobInstance drawn_{};
  std::chrono::milliseconds ask_each_{};
  unsigned search_ = 0;  ///< what is answered to an earlier one counts for nothing
  bool searches_ = false;
  std::optional<Instant> led_since_;  ///< of the search before
  Instant gives_way_until_{};         ///< to others that would lead
  bool is_unread_ = false;            ///< the service did not say who leads
  bool is_unled_ = false;             ///< it did not let this node lead
  ToldRecently told_;                 ///< to people
};

}  // namespace ddprun
