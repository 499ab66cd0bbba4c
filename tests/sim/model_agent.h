// ModelAgent: one life of an agent without processes or sockets. It looks for its coordinator,
// follows it, loses it, votes, stands for it and takes over as control/follower and
// control/coordinator_client do, around the real Voter and Election; and it has workers that
// spawn, train, fail and stop, as agent/agent orders them.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "rendezvous/membership/election.h"
#include "rendezvous/membership/last_known_state.h"
#include "rendezvous/node/follower_lease.h"
#include "tests/sim/model_coordinator.h"
#include "tests/sim/model_workers.h"
#include "tests/sim/network.h"

namespace ddprun::sim {

class Machine;

class ModelAgent {
 public:
  explicit ModelAgent(Machine& machine);
  ~ModelAgent();
  ModelAgent(const ModelAgent&) = delete;
  ModelAgent& operator=(const ModelAgent&) = delete;

  void start();
  /// Its process ends; the machine's kernel lives on, or not.
  void end(bool kernel_lives);
  void on_message(ConnectionId connection, Side side, const Message& message);

  [[nodiscard]] bool leads() const { return coordinator_ != nullptr; }
  [[nodiscard]] std::optional<Term> leading_term() const;
  [[nodiscard]] bool is_over() const { return state_ == State::over; }
  [[nodiscard]] VoterId voter_id() const { return node_.voter; }
  [[nodiscard]] const NodeDescription& node() const { return node_; }
  ModelWorkers& workers() { return workers_; }
  /// Somebody sends it a signal.
  void signal(int number, StopWish wish);

  // Of workers.

  void say(Event event);
  void workers_gone();

 private:
  enum class State : std::uint8_t { joining, following, leading, losing, seeking, over };
  struct Called {
    Term term{};
    int machine = 0;
  };
  /// Where the coordinator is, as an agent that does not lead says.
  struct Moved {
    bool leads = false;
    std::optional<int> to;
  };

  // Looking.
  void look();
  void look_again();
  [[nodiscard]] int next_place();
  void on_place(int machine, const Moved& moved);
  [[nodiscard]] Moved where() const;
  void knock(int machine);
  void on_answer(const Order& order);
  void give_up_knocking();
  // Following.
  void follow(const Welcome& welcome, Duration stamp);
  [[nodiscard]] bool at_endpoint() const;
  void announced(Term term, AttemptNumber attempt, const Configuration& configuration);
  void obey(const Order& order);
  void on_heir(const TellStandbys& told, int place);
  void on_assigned(const AssignWorld& order);
  void on_beat_answer(const BeatAnswer& answer);
  void begin_lease(Instant asked_at);
  void check_lease();
  void arm_lease();
  // Losing.
  void lose(bool closed);
  void leave();
  void depose();
  void quiet();
  void on_call(const Called& call);
  void on_outranked(const Called& by);
  // Election.
  void pursue();
  void ask_all();
  void take_over();
  void lead(MembershipOptions options, const std::set<VoterId>& votes);
  void announcer(Duration pause);
  void be_over();

  Machine& machine_;
  NodeDescription node_;
  State state_ = State::joining;
  ModelWorkers workers_;
  std::unique_ptr<ModelCoordinator> coordinator_;
  // Looking.
  std::optional<ConnectionId> knocking_;
  Duration knocked_at_{};
  std::optional<int> hint_;
  int turn_ = 0;
  Duration seek_since_{};
  bool looking_ = false;
  // Following.
  std::optional<ConnectionId> connection_;
  bool local_ = false;
  bool held_ = false;  ///< the connection is, and says nothing more
  Voter voter_;
  Term followed_{};
  int leading_ = 0;
  std::optional<AttemptNumber> newest_;
  std::optional<ReplicatedState> heir_;
  JobSummary heir_story_;
  int place_ = 0;
  LastKnownState memory_;
  std::optional<FollowerLease> lease_;
  bool farewell_ = false;
  std::uint64_t armed_ = 0;  ///< counts changes of the timer
  // Of the newest loss.
  Duration contact_{};
  bool saw_close_ = false;
  std::optional<Called> called_;
  std::optional<Election> election_;
};

}  // namespace ddprun::sim
