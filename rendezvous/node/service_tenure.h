// ServiceTenure: one process' time as the leader by a consensus service with leases: how it enters
// itself, when it renews, what proves that nobody else leads, and what ends it. Pure; its owner has
// the timer and asks the service, one question after the other, in order (consensus/etcd_service).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/node/service_question.h"

namespace ddprun {
namespace tenure {

/// Names a question; each is used once.
using Ticket = std::uint64_t;
/// Names a wish; the caller's own. 0: nobody waits for what comes of it.
using WishId = std::uint64_t;

// --- What happened --------------------------------------------------------------------------

/// This process wants to lead, after it has `seen` that. Done follows.
struct LeadWished {
  WishId id{};
  ServiceView seen;
  LeaderRecord self;
};
/// Is to be kept, in place of what was. Done follows.
struct StateGiven {
  WishId id{};
  std::string state;
};
/// It leads no more, and no worker lives that follows it: the next may lead at once. `job_is_over`:
/// nobody is to go on with the state. Done follows.
struct ResignWished {
  WishId id{};
  bool job_is_over = false;
};
/// It leads no more, but those that follow it may not know that yet: its entry stays until the
/// lease ends, so that nobody else leads before.
struct LetGo {};
struct Answered {
  Ticket to{};
  Result<ServiceAnswer> answer;
};
/// next_deadline() has come.
struct TimePassed {};

using Input = std::variant<LeadWished, StateGiven, ResignWished, LetGo, Answered, TimePassed>;

// --- What to do -----------------------------------------------------------------------------

/// Answered follows.
struct Ask {
  Ticket ticket{};
  ServiceQuestion question;
};
/// What came of a wish. False: the service lets somebody else lead. An error is no answer.
struct Done {
  WishId wish{};
  Result<bool> done;
};

using Action = std::variant<Ask, Done>;

}  // namespace tenure

/// For so long the service may be gone, and a job that it decides for goes on.
inline constexpr std::chrono::milliseconds kServiceAbsence{12'000};

/// How long leases last. The leader's is longer than the heartbeat timeout by kServiceAbsence. The
/// state's ends when nobody has led for so long.
struct TenureLeases {
  std::chrono::seconds leader{};
  std::chrono::seconds state{};

  static TenureLeases of(std::chrono::milliseconds heartbeat_timeout,
                         std::chrono::milliseconds join_timeout);
};

class ServiceTenure {
 public:
  explicit ServiceTenure(TenureLeases leases);

  /// `now` never goes back. Total: an answer to what is of a leadership before changes nothing.
  std::vector<tenure::Action> step(Instant now, tenure::Input input);
  [[nodiscard]] std::optional<Instant> next_deadline() const { return renew_at_; }
  /// Until then, by the caller's clock, nobody else can lead. Instant{}: it does not lead.
  [[nodiscard]] Instant leads_until() const { return leads_until_; }

 private:
  // Why a question was asked.
  struct GrantForLeader {
    tenure::LeadWished wish;
    Instant asked_at{};
  };
  struct EnterLeader {
    tenure::LeadWished wish;
    Instant asked_at{};  ///< the lease
    ServiceLease lease;
  };
  struct GrantForState {};
  struct WriteState {
    tenure::StateGiven given;
    std::int64_t leader_revision = 0;
    std::int64_t state_revision = 0;
    Instant asked_at{};
  };
  struct Renew {
    Instant asked_at{};
    ServiceLease lease;
  };
  struct RenewState {};
  struct LookAtLeader {
    std::int64_t revision = 0;
  };
  struct Resign {
    tenure::WishId wish{};
  };
  struct Revoke {};
  using Purpose = std::variant<GrantForLeader, EnterLeader, GrantForState, WriteState, Renew,
                               RenewState, LookAtLeader, Resign, Revoke>;
  using Answer = Result<ServiceAnswer>;

  void on(tenure::LeadWished input);
  void on(tenure::StateGiven input);
  void on(tenure::ResignWished input);
  void on(const tenure::LetGo& input);
  void on(const tenure::Answered& input);
  void on(const tenure::TimePassed& input);

  void take(const GrantForLeader& asked, const Answer& answer);
  void take(const EnterLeader& asked, const Answer& answer);
  void take(const GrantForState& asked, const Answer& answer);
  void take(const WriteState& asked, const Answer& answer);
  void take(const Renew& asked, const Answer& answer);
  void take(const RenewState& asked, const Answer& answer);
  void take(const LookAtLeader& asked, const Answer& answer);
  void take(const Resign& asked, const Answer& answer);
  void take(const Revoke& /*asked*/, const Answer& /*answer*/) {}

  void ask(ServiceQuestion question, Purpose purpose);
  void write(const tenure::StateGiven& given);
  void write_after(std::int64_t state_revision, const WriteState& asked);
  void done(tenure::WishId wish, Result<bool> done);
  void revoke(const ServiceLease& lease);
  void lost();
  [[nodiscard]] Instant proven_from(Instant asked_at) const;

  TenureLeases leases_;
  Instant now_{};
  std::vector<tenure::Action> actions_;
  std::map<tenure::Ticket, Purpose> asked_;  ///< and not answered yet
  tenure::Ticket last_ticket_ = 0;
  std::optional<Instant> renew_at_;
  Instant leads_until_{};
  ServiceLease leader_lease_;
  ServiceLease state_lease_;
  std::int64_t leader_revision_ = 0;  ///< in which the leader's key was written; 0: it leads not
  std::int64_t state_revision_ = 0;   ///< of the newest write that is known; 0: there is no state
  Instant state_renewed_at_{};
  std::string state_;  ///< the newest that was to be written
  std::optional<tenure::StateGiven> waits_for_lease_;
};

}  // namespace ddprun
