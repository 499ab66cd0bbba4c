// Membership: the job's state machine, the one authority on who is in the world of which attempt.
// Pure: time comes in with each event, commands go out; no socket, clock, thread or log inside.
// Same events, same commands. docs/membership.md draws it.
//
//   gathering --> running            enough nodes (gathering.h)
//   running   --> stopping           a worker failed, a member was lost, a node joined below max,
//                                    somebody asked to end the job
//   stopping  --> running|gathering  all members said that their workers are gone, or were lost
//   any       --> ending             succeeded, failed, stopped or impossible
//   ending    --> over               so many nodes know it that no successor can go on
//
// A node that joins with a --node-rank already in use waits: the current holder may be dead but not
// yet detected. If the holder is lost, the newcomer takes its place; if the holder sends anything,
// the newcomer is rejected. If the newcomer is the same life of the same agent, the old connection
// is closed at once.
//
// What holds at any time: workers of one attempt at most are alive, for the next is assigned only
// when every member of the one before has stopped or is lost (a lost node fences itself). Attempt
// numbers rise by one and are never used twice; whatever a node says of another attempt than the
// current one is ignored, so late and repeated messages do no harm.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rendezvous/membership/admission.h"
#include "rendezvous/membership/command.h"
#include "rendezvous/membership/environment_check.h"
#include "rendezvous/membership/event.h"
#include "rendezvous/membership/gathering.h"
#include "rendezvous/membership/incident.h"
#include "rendezvous/membership/job_history.h"
#include "rendezvous/membership/leadership.h"
#include "rendezvous/membership/old_world_fence.h"
#include "rendezvous/membership/rank_order.h"
#include "rendezvous/membership/recent_rejections.h"
#include "rendezvous/membership/restart_policy.h"
#include "rendezvous/membership/scale_up.h"
#include "rendezvous/membership/takeover_state.h"

namespace ddprun {

struct MembershipOptions {
  std::string job_id;
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;  ///< wins over that of `restarts`
  std::chrono::nanoseconds join_timeout = std::chrono::seconds(600);
  std::chrono::nanoseconds last_call_timeout = std::chrono::seconds(30);
  /// A sentence about the endpoint, told while nobody but its host is here: why that may be.
  std::string endpoint_note = {};
  /// Of the agent that hosts this coordinator; 0: the job has no failover.
  VoterId self = {};
  Term term{1};
  RestartRules restarts = {};
  /// Of a successor.
  std::optional<TakeoverState> inheritance = {};
  ScaleUp scale_up = ScaleUp::at_snapshot;
  bool require_same_env = false;  ///< see environment_check.h
  bool at_endpoint = true;        ///< see JobTerms
  std::chrono::nanoseconds heartbeat_timeout = {};
  std::size_t voters_max = kVotersMax;  ///< see leadership.h
  /// Of a new job; a successor's is inherited.
  JobInstance instance{};
};

enum class JobState : std::uint8_t { gathering, running, stopping, ending, over };

class Membership {
 public:
  /// Gathering begins at `now`.
  Membership(MembershipOptions options, Instant now);

  /// Takes one event and returns what is to be done about it, in order. `now` never goes back.
  /// Total: events of unknown nodes, of other attempts, and repeated ones are ignored. The caller
  /// owes: fresh node ids, NodeLost once the connection of a welcomed node is gone (also after
  /// FinishJob), TimePassed when next_deadline() has come.
  std::vector<Command> apply(Instant now, Event event);

  /// When TimePassed is due; none while nothing waits for time.
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  [[nodiscard]] JobState state() const { return state_; }
  /// The attempt that runs, is being stopped, or was the last one.
  [[nodiscard]] std::optional<AttemptNumber> attempt() const { return attempt_; }
  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }
  /// Of them, those that can run workers.
  [[nodiscard]] std::size_t workers_here() const;
  [[nodiscard]] int restarts_used() const { return policy_.budget().used(); }
  /// Who decides for the job (leadership.h).
  [[nodiscard]] const Leadership& leadership() const { return leadership_; }
  /// What has happened, and where the time went.
  [[nodiscard]] const JobHistory& record() const { return record_; }
  /// All workers of the attempt have been spawned.
  [[nodiscard]] bool all_started() const { return state_ == JobState::running && unstarted_ == 0; }

 private:
  enum class Phase : std::uint8_t {
    idle,      ///< no member of the attempt: gathering, a spare, or a late joiner
    working,   ///< a member, told to start its workers
    finished,  ///< a member whose workers all exited 0
    stopping,  ///< a member, told to stop its workers
    stopped,   ///< a member without any worker left
  };

  /// What is kept of a welcomed node; small, for there may be ten thousand.
  struct Node {
    std::string host_name;
    std::string address;
    Instant joined_at{};
    std::string role;
    VoterId voter{};    ///< the life of its agent; 0: the job has no failover
    Instant said_at{};  ///< its hello, on its own clock
    int local_world_size = 1;
    std::optional<int> node_rank;
    std::optional<int> order_hint;
    bool hosts_coordinator = false;
    bool witness = false;
    bool leaving = false;   ///< asked to leave in order: in no other world
    bool released = false;  ///< and told that it may
    Phase phase = Phase::idle;
    bool started = false;  ///< has spawned its workers of this attempt
    bool stepped = false;  ///< has told its first step in this attempt
    std::optional<int> last_group_rank;
    int base_rank = 0;  ///< of the current attempt
  };

  /// A node of this job that was refused for good while the job gathers.
  struct Refused {
    Refusal refusal;
    Verdict verdict;  ///< of the job, where it cannot do without that node
  };
  using HostAndAddress = std::pair<std::string, std::string>;

  struct Ending {
    Verdict verdict;
    std::string reason;
    int stop_signal = 0;
  };

  void on(NodeJoined event);
  void on(const StrangerTurnedAway& event);
  void on(const NodeHeard& event);
  void on(const NodeLost& event);
  void on(WorkersStarted event);
  void on(WorkerFailed event);
  void on(WorkersFinished event);
  void on(WorkersStopped event);
  void on(StopRequested event);
  void on(const NodeGaveUp& event);
  void go_on_without(NodeId id, Node& node, const std::string& why);
  void on(const StoreFailed& event);
  void on(const StateAcknowledged& event);
  void on(TimePassed event);
  void on(const WorkersProgress& event);
  void on(EnvironmentTold event);
  void on(const WorkersHung& event);

  Node* member(NodeId id, AttemptNumber attempt);
  std::optional<Refusal> refusal(const NodeDescription& node) const;
  void reject(NodeId id, const NodeDescription& node, const std::string& address, Refusal refused);
  void will_not_come(HostAndAddress who, Refused refused);
  [[nodiscard]] std::size_t count_refused() const;
  [[nodiscard]] Ending refused_ending() const;
  bool lets_in(const NodeJoined& event);
  Node& admit(NodeJoined event);
  void contend(NodeJoined event);
  std::optional<NodeId> contender_for(std::optional<int> node_rank) const;
  std::optional<NodeId> next_waiter(const Node& lost);
  void lost_from(const Node& node, const std::string& why, Instant lost_at);
  void joined_while_running(NodeId id, const Node& node);
  void catch_up(NodeId id);
  void add_record(const Node& node, FailureRecord record);
  void add_positions(const Node& node, const std::vector<WorkerPosition>& positions);
  IncidentBuilder& incident();
  void begin_stop(const std::string& reason, StopHow how = StopHow::now, int signal = 0);
  void preempt(Ending ending);
  void let_go(NodeId id, Node& node, int signal);
  void release_leaving();
  void hurry(const std::string& reason);
  void account(const TrainingProgress& told);
  void conclude_order();
  void one_stopped(Node& node);
  void all_stopped();
  void hear_progress(Node& node, TrainingProgress told);
  void tell_story();
  void close_incident();
  void tell_incident(const Incident& closed, const RestartPolicy::Decision& decision);
  void end_job(Ending ending);
  void gather();
  void try_start();
  void take_over();
  void remember(const NodeDescription& node);
  void resume(JobSummary so_far, Instant told_at, Instant lost_at);
  void coordinator_lost(AttemptNumber attempt, Instant lost_at, const std::string& why);
  void agree();
  [[nodiscard]] bool waits_for_followers() const;
  [[nodiscard]] bool waits_for_old_world() const;
  [[nodiscard]] std::string old_world_text() const;
  void plan();
  void put_off_plan();
  [[nodiscard]] SharedSummary story() const;
  void committed();
  [[nodiscard]] std::vector<RankedNode> ranked() const;
  [[nodiscard]] std::vector<NodeId> members() const;
  void assign();
  void finish(Ending ending);
  void inherit_end(const JobSummary& told);
  void try_end();
  void end_without_quorum();
  void tell_end();
  [[nodiscard]] bool waits() const;
  void tell_waiting();
  void tell_turn(NodeId id, std::string note);
  RendezvousStatus waiting_table() const;
  std::vector<int> missing_ranks() const;
  bool host_is_alone() const;
  std::string missing_text() const;
  std::string quorum_missing_text() const;
  std::string names_here() const;
  void check_invariants() const;

  MembershipOptions options_;
  JobTerms terms_;
  Gathering gathering_;
  RestartPolicy policy_;
  AttemptStory story_;    ///< of the current attempt
  Instant not_before_{};  ///< the next attempt
  Instant plan_pause_{};  ///< since the last plan that was upset; see put_off_plan()
  JobHistory record_;
  Instant story_told_at_{};  ///< to the standbys
  /// The newest that it has resumed from: term, attempt, and the job's time by then.
  std::tuple<ConfigurationNumber, AttemptNumber, std::chrono::nanoseconds> remembered_{};
  std::optional<JobSummary> remembered_end_;  ///< of that copy: the job is over
  Leadership leadership_;
  OldWorldFence fence_;
  bool fence_told_ = false;
  EnvironmentCheck environment_check_;
  Instant now_;
  /// Enough nodes are here, and something else is waited for (plan, quorum, followers).
  bool held_back_ = false;
  Instant expects_until_{};  ///< of a successor: how long it waits for all that are alive
  JobState state_ = JobState::gathering;
  std::map<NodeId, Node> nodes_;  ///< in order of arrival: iteration is the same in every run
  std::unordered_map<int, NodeId> node_ranks_;  ///< given ranks that are taken
  std::map<NodeId, NodeJoined> contenders_;     ///< welcomed, no nodes of the job yet
  RecentRejections waiting_room_;
  std::map<HostAndAddress, Refused> refused_;  ///< in this gathering; at most max nodes
  std::map<NodeId, HostAndAddress> kept_out_;  ///< agreement_ is about to refuse them
  std::optional<AttemptNumber> attempt_;
  int world_nodes_ = 0;  ///< of the current attempt, when it was assigned
  int world_size_ = 0;
  int working_ = 0;    ///< members in Phase::working
  int witnesses_ = 0;  ///< nodes that run no workers
  int leaving_ = 0;    ///< other nodes that will run no more
  int unstarted_ = 0;  ///< members that have not spawned their workers yet
  int stopping_ = 0;   ///< members in Phase::stopping
  int finished_ = 0;   ///< members that finished, also when lost since
  // While stopping:
  StopHow how_ = StopHow::now;  ///< what the members were asked for
  bool all_complete_ = true;    ///< every member's workers so far had ended by themselves, with 0
  bool all_in_order_ = true;    ///< or as they were asked to
  bool any_told_ = false;       ///< some use the worker runtime
  bool left_unasked_ = false;   ///< in a running attempt, workers left because they were signalled
  std::string last_lost_;       ///< host name, for the text about who is missing
  std::optional<IncidentBuilder> incident_;
  std::optional<Ending> ending_;  ///< decided while stopping, or before everybody may be told
  std::vector<Command> commands_;
};

}  // namespace ddprun
