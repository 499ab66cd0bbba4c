// Leader: what a coordinator decides around the state machine of its job: which session is an
// agent's, whose death is certain, whose contact counts, when it may lead no more, and whom it
// calls. Pure: time and what happened come in, what to do goes out, in order. The shell
// (control/coordinator) has the sockets, the store and one timer; the simulation runs this very
// code.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rendezvous/membership/membership.h"
#include "rendezvous/node/leader_io.h"
#include "rendezvous/node/leader_lease.h"
#include "rendezvous/node/leader_outbox.h"
#include "rendezvous/protocol/message.h"
#include "rendezvous/protocol/voter_addresses.h"

namespace ddprun {

/// Sees each event of the state machine after it was applied.
class LeaderObserver {
 public:
  LeaderObserver() = default;
  LeaderObserver(const LeaderObserver&) = delete;
  LeaderObserver& operator=(const LeaderObserver&) = delete;
  virtual ~LeaderObserver() = default;
  /// `commands` are those that are really given.
  virtual void applied(Instant now, const Event& event, const std::vector<Command>& commands,
                       const Membership& membership) = 0;
};

class Leader : private LeaderLease::Quorum {
 public:
  /// Leads from `now` on.
  Leader(LeaderOptions options, Instant now);

  /// Takes what happened and returns what to do about it, in order. `now` never goes back. Total:
  /// what comes from a session that is closed is ignored.
  std::vector<LeaderAction> step(Instant now, LeaderInput input);
  /// When LeaderTimePassed is due; none: never.
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  /// What an answer to a beat says of the quorum (FollowerLease).
  [[nodiscard]] std::optional<LeaderLease::Age> advertised_age(Instant now) {
    return lease_.advertised_age(now);
  }
  /// May be null. It outlives this.
  void watch(LeaderObserver* observer) { observer_ = observer; }

  [[nodiscard]] const Membership& membership() const { return membership_; }
  [[nodiscard]] Term term() const { return membership_.leadership().in_use().term; }
  /// That follow this leader: those that it has accepted.
  [[nodiscard]] std::vector<NodeId> members() const;

 private:
  struct Session {
    enum class Stage : std::uint8_t {
      ungreeted,
      greeted,  ///< accepted, and not heard of since
      member,
      leaving
    };
    Stage stage = Stage::ungreeted;
    [[nodiscard]] bool is_accepted() const {
      return stage == Stage::greeted || stage == Stage::member;
    }
    bool local = false;
    bool leaves = false;   ///< it said so: when it closes, it is not dead
    bool awaited = false;  ///< it remembers a job, and was greeted
    VoterId voter{};
    Instant fresh = kNever;  ///< it is known to have followed at this time
    std::string address;
    std::unique_ptr<NodeDescription> hello = {};  ///< while it is greeted
    std::optional<std::pair<Term, JobInstance>> greeted_in = {};
  };
  /// Calls are made at growing intervals.
  struct Calls {
    std::optional<Instant> due;  ///< none: this leader calls nobody
    std::chrono::milliseconds interval{};
  };

  void on(SessionOpened input);
  void on(SessionTold input);
  void on(const SessionEchoed& input);
  void on(const SessionHeard& input);
  void on(const SessionClosed& input);
  void on(const CallAnswered& input);
  void on(const LedByAnother& input);
  /// Those that are the state machine's own.
  template <class Input>
  requires(std::is_same_v<Input, StrangerTurnedAway> ||
           std::is_same_v<Input, StoreFailed>) void on(Input input) {
    apply(std::move(input));
  }
  void on(const LeaderTimePassed& input);

  void join(NodeId id, Session& session, NodeDescription node);
  void admit(NodeId id, Session& session);
  void tell_old_voters(NodeId joined, VoterId voter);
  void answer_peer(NodeId id, Session& session, const message::Message& question);
  void drain(NodeId asker, const message::DrainNode& wanted);
  void drop(NodeId id, const std::string& why);
  void apply(Event event);
  void apply_now(Event event);
  void give(const Welcome& order);
  void give(Reject order);
  void give(const Replicate& order);
  void give(const Disconnect& order);
  void give(const FinishJob& order);
  template <class Order>
  void give(Order order) {
    outbox_.give(std::move(order));
  }
  bool keeps_lease(const std::optional<std::string>& lost);
  void step_down(const std::string& why, std::optional<message::Follow> by);
  void forget_absent();
  void call_others();
  [[nodiscard]] message::Follow call() const;
  [[nodiscard]] bool is_for_this(const message::Follow& call, bool begins) const;

  [[nodiscard]] Need need() const override;
  [[nodiscard]] Instant contact(Instant now) const override;
  [[nodiscard]] bool outdated() const override;

  LeaderOptions options_;
  Membership membership_;
  LeaderLease lease_;
  VoterAddresses addresses_;
  std::unordered_map<NodeId, Session> sessions_;  ///< looked up at each heartbeat
  bool voters_know_all_ = false;                  ///< where the newest node is
  LeaderObserver* observer_ = nullptr;
  Instant now_;
  LeaderOutbox outbox_{options_};
  std::deque<Event> events_;
  bool applying_ = false;
  bool deposed_ = false;
  Need need_ = Need::none;  ///< need(), after the newest event
  Calls calls_;
  bool ends_ = false;  ///< the end of the job is decided
};

}  // namespace ddprun
