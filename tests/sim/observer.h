// Observer: sees all that every coordinator is told and orders, and knows which workers really
// live. It says what went wrong, never how to do it right.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/membership/membership.h"
#include "tests/sim/known_nodes.h"
#include "tests/sim/options.h"
#include "tests/sim/service.h"

namespace ddprun::sim {

/// One coordinator's time as such. Numbered by the cluster, each once.
enum class LeadershipId : std::uint32_t {};

class Observer {
 public:
  explicit Observer(const SimOptions& options)
      : sim_(options), options_(membership_options(options)) {}

  /// A coordinator begins; `votes` are those that made it one (none: a new job).
  void leadership_begins(LeadershipId leadership, int machine, Term term, VoterId self,
                         int restarts_used, const std::set<VoterId>& votes,
                         const ReplicatedState& inherited);
  /// After every event of that coordinator, with the commands that it gave.
  void after(Duration now, LeadershipId leadership, const Event& event,
             const std::vector<Command>& commands, JobState state);
  /// It is no coordinator any more: dead, or deposed.
  void leadership_ends(LeadershipId leadership);

  /// The process of this voter is no more.
  void voter_gone(VoterId voter) { gone_.insert(voter); }

  /// Workers of an attempt began to live or ceased to, on one machine.
  void workers_live(int machine, AttemptNumber attempt);
  void workers_gone(int machine);
  /// What fencing does not promise: workers on this machine may live besides others' for now.
  void excuse(int machine, bool excused);
  [[nodiscard]] bool is_excused(int machine) const { return excused_.contains(machine); }
  /// Whether the consensus service answers that machine.
  void serves(int machine, bool served) {
    served ? unserved_.erase(machine) : unserved_.insert(machine).second;
  }
  /// What it keeps of the job, for the rules about it. It outlives this object.
  void watch_service(const Service* service) { service_ = service; }

  /// At any time: a job that could run does so before long.
  void check_progress(Duration now);
  void broken(const std::string& what);

  /// The first violation; empty while all is well.
  [[nodiscard]] const std::string& violation() const { return violation_; }
  /// The end that a coordinator declared.
  [[nodiscard]] const std::optional<JobSummary>& summary() const { return summary_; }
  /// The end is decided for good: a quorum says so.
  [[nodiscard]] bool is_over() const { return over_.has_value(); }
  /// Of the world that was handed out last, and of the one that was announced last.
  [[nodiscard]] const Configuration& newest_configuration() const { return configuration_; }
  [[nodiscard]] const Configuration& announced_configuration() const { return announced_; }
  [[nodiscard]] bool any_world() const { return !attempts_.empty(); }
  [[nodiscard]] int attempts() const { return static_cast<int>(attempts_.size()); }
  [[nodiscard]] int incidents() const { return incidents_; }
  [[nodiscard]] int contests() const { return contests_; }
  /// A process that knows nothing began the job, for those who had been told of its first world are
  /// cut off or gone, or the job is over: it cannot know. Such a story is judged no further.
  [[nodiscard]] bool begun_twice() const { return begun_twice_; }

 private:
  struct Watched {
    int machine = 0;
    Term term{};
    VoterId self{};
    bool first_world = true;  ///< of this leadership
    bool begins = false;      ///< it knows of no world but by others
    KnownNodes known;
    std::map<NodeId, NodeDescription> contenders;
    std::set<VoterId> dead;
    bool past = false;     ///< of one that knows nothing: it heard of a job
    VoterId old_leader{};  ///< of the copy that it goes by
    bool leader_is_gone = false;
    Configuration planned;                      ///< by it, the newest
    bool is_world_planned = false;              ///< and not handed out
    std::optional<std::size_t> workers_at_end;  ///< nodes with workers when its end was decided
    std::set<NodeId> members;
    std::set<NodeId> finished;
    std::optional<AttemptNumber> attempt;
    AttemptNumber remembered{};   ///< the newest that a node brought
    Configuration configuration;  ///< that it uses
    LogPosition knows;
    std::set<ConfigurationNumber> announced;
    /// Of a successor, until its first world: these decide as well, for it cannot know which of the
    /// two was the last world.
    Configuration newest;
    std::vector<Configuration> before;
    int restarts_used = 0;
    /// Of one that begins: the newest that a standby told it.
    std::optional<std::pair<ConfigurationNumber, AttemptNumber>> known_history;
    bool fault_seen = false;   ///< in this attempt a worker failed by itself, and said so
    bool origin_seen = false;  ///< in this attempt a member was lost or a node joined
    bool over = false;
    bool ends = false;         ///< it came after one that had decided the end
    bool of_the_rest = false;  ///< and so may rise to a term of another that told the same end
    bool by_the_rest = false;  ///< by them alone: it may have its first term with another, too
    Term end_term{};           ///< in which it commits the end
    JobState state = JobState::gathering;
    std::optional<Duration> able_since;  ///< since when all that it needs is here
  };

  void note(Watched& one, const Event& event);
  [[nodiscard]] static bool withholds_world(const Watched& one,
                                            const std::vector<Command>& commands);
  void note_announced(Watched& one, const Replicate& told);
  void check_order(Watched& one, const Event& event, const Command& command);
  void check_world(Watched& one, const std::vector<AssignWorld>& assigned);
  void rise(Watched& one, Term term);
  void use(Watched& one, const Configuration& configuration);
  void check_ranks(const Watched& one, const std::vector<AssignWorld>& assigned);
  void check_budget(const Watched& one, int restarts_used);
  void check_end(Watched& one, const JobSummary& summary);
  void check_overlap();
  void check_service(const Watched& one, ConfigurationNumber configuration);
  [[nodiscard]] std::set<VoterId> with_dead(const std::set<VoterId>& votes) const;
  bool is_made_by_the_rest(Watched& one, const std::set<VoterId>& votes);
  [[nodiscard]] bool inherited_agree(const Watched& one) const;
  [[nodiscard]] bool knows_enough(const Watched& one) const;
  [[nodiscard]] static bool is_bound(const Watched& one, const KnownNode& node);
  void adopt(Watched& one, const NodeDescription& node) const;
  [[nodiscard]] bool decides_now(const Watched& one) const;
  [[nodiscard]] bool others_planned(const Watched& one) const;
  [[nodiscard]] bool has_finished(const Watched& one) const;
  [[nodiscard]] bool has_quorum(const Watched& one, const Configuration& configuration,
                                bool of_any_kind = false) const;

  const SimOptions& sim_;
  MembershipOptions options_;
  std::string violation_;
  std::map<LeadershipId, Watched> leads_;
  std::set<VoterId> gone_;
  std::vector<std::vector<VoterId>> rests_;  ///< is_made_by_the_rest()
  std::set<std::uint32_t> terms_;
  std::map<ConfigurationNumber, std::vector<VoterId>> committed_;
  std::set<std::uint32_t> attempts_;
  Configuration configuration_;
  Term configuration_term_{};
  Configuration announced_;
  std::set<ConfigurationNumber> all_announced_;
  std::map<int, AttemptNumber> live_;
  std::set<int> excused_;
  std::set<int> unserved_;
  const Service* service_ = nullptr;         ///< null: nodes vote
  std::map<std::uint32_t, int> live_nodes_;  ///< by attempt; without those that are excused
  std::optional<JobSummary> summary_;
  int restarts_used_ = 0;  ///< by the newest world
  int incidents_ = 0;
  int contests_ = 0;
  bool success_is_known_ = false;  ///< was told to standbys
  std::optional<Verdict> over_;    ///< for good: a quorum says so
  bool begun_twice_ = false;
  bool contends_ = false;    ///< the node of the event waits for a rank
  bool began_anew_ = false;  ///< an agent hosted the endpoint of a job that had begun
};

}  // namespace ddprun::sim
