// LeaseExchange: which requests a question about a job's Lease needs, one after the other: what is
// known is written at once; it is read again where somebody else was faster, and where an answer
// got lost. Questions are answered in their order, and one request is under way at a time. Pure;
// its owner has the connection (kubernetes_service).
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/consensus/conflict_pause.h"
#include "rendezvous/consensus/kubernetes_answer.h"
#include "rendezvous/consensus/lease_keeper.h"

namespace ddprun {
namespace lease_exchange {

/// Names a question; the caller's own.
using Id = std::uint64_t;

/// replied() follows. `body`: of a create or an update. It is sent after `pause`.
struct Request {
  LeaseVerb verb{};
  std::string body;
  std::chrono::milliseconds pause{};
};
/// Of a ReadView.
struct Viewed {
  Id id{};
  Result<ServiceView> view;
};
/// Of all others. An error is no answer: it may have been done.
struct Ended {
  Id id{};
  Result<ServiceAnswer> answer;
};

using Action = std::variant<Request, Viewed, Ended>;

}  // namespace lease_exchange

class LeaseExchange {
 public:
  using Moment = LeaseKeeper::Moment;
  using Actions = std::vector<lease_exchange::Action>;

  LeaseExchange(const LeaseKeeper::Owner& owner, TenureLeases leases);

  Actions asked(Moment at, lease_exchange::Id id, const ServiceQuestion& question);
  /// To the Request that is under way; never LeaseReply::Kind::busy.
  Actions replied(Moment at, LeaseReply reply);
  /// Why the newest request was in vain; empty: it was not.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  struct Question {
    lease_exchange::Id id{};
    ServiceQuestion question;
    std::string mark;
    bool is_fresh = false;  ///< the object was read for it
    int writes = 0;
  };

  void proceed(Moment at, Actions& actions);
  bool answer(Moment at, Actions& actions);
  bool request(Actions& actions, LeaseVerb verb, std::string body);
  bool end(Actions& actions, Result<ServiceAnswer> answer);
  void read(Moment at, LeaseReply reply, Actions& actions);
  void written(Moment at, LeaseReply reply, Actions& actions);
  void not_written(LeaseReply reply, Actions& actions);

  LeaseKeeper keeper_;
  ConflictPause conflicts_;
  std::chrono::milliseconds pause_{};  ///< before the next request
  std::deque<Question> questions_;     ///< of the first a request may be under way
  bool is_waiting_ = false;            ///< it is
  bool is_known_ = false;              ///< the keeper saw an object that may be the newest
  LeaseVerb verb_{};                   ///< of the newest request
  ServiceAnswer done_;                 ///< the answer, if what is being written is done
  std::string trouble_;
  bool trouble_is_of_writing_ = false;  ///< so only a write shows that it is over
};

}  // namespace ddprun
