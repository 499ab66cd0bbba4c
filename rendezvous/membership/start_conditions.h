// StartConditions: what the next world waits for: enough nodes (gathering.h), those that elected
// this coordinator, the end of the old world (old_world_fence.h), pauses. Pure.
//
// The end of the job waits for some of these, too, for it is told when a quorum has stored it.
// Whether nodes agree on their environment is not asked here (environment_check.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "rendezvous/membership/event.h"
#include "rendezvous/membership/gathering.h"
#include "rendezvous/membership/leadership.h"
#include "rendezvous/membership/membership_options.h"
#include "rendezvous/membership/old_world_fence.h"

namespace ddprun {

class StartConditions {
 public:
  enum class Decision : std::uint8_t {
    wait,            ///< for nodes, or for the last call to end
    give_up,         ///< there will be no world: too few nodes came
    no_quorum,       ///< there will be no world: those who decide for the job did not come in time,
                     ///< or did not store what they were sent
    hold_back,       ///< enough nodes are here, and something else is waited for
    tell_old_world,  ///< the same; people have to be told, once, that it is the old world
    start,
  };

  /// A successor waits for the nodes that are known to be alive, from `now` on.
  StartConditions(const MembershipOptions& options, Instant now);

  /// Begins to wait. `first`: of a new job. `waited`: of the join timeout (Gathering::begin).
  void begin(Instant now, bool first, std::chrono::nanoseconds waited = {});
  /// So many nodes are known to be alive, or are starting; they are waited for until then.
  void expect(std::size_t nodes, Instant until);
  /// A member of the world that runs has let go of this coordinator, and lives: it is back by then,
  /// or it will not come.
  void let_go(VoterId agent, Instant back_by) { away_[agent] = back_by; }
  void came(VoterId agent) { away_.erase(agent); }
  /// That node remembers the job, and is about to say so: no world starts before. Nodes that never
  /// do hold one back for a heartbeat timeout in all, however many they are.
  void await_word_of(NodeId node, Instant now);
  void kept_word(NodeId node, Instant now);
  /// It is gone, and has said nothing.
  void no_longer_await(NodeId node) { awaited_.erase(node); }
  [[nodiscard]] bool awaits_word(Instant now) const { return !awaited_.empty() && now < words_by_; }
  /// Of these the ones that may still come are expected beside the `here` nodes.
  void expect_back(std::size_t here, Instant now);
  /// No world is planned before `until`, since attempts in a row have failed early.
  void back_off(Instant until) { not_before_ = backs_off_until_ = until; }
  /// A node came or went while a world was planned, so the plan is void. The next one waits a
  /// little, and longer each time.
  void put_off_plan(Instant now);
  /// Somebody came, went or was refused: the next report to people is due sooner.
  void changed(Instant now) { gathering_.changed(now); }
  [[nodiscard]] bool report_due(Instant now) { return gathering_.report_due(now); }

  /// Of `nodes` here, `workers` can run workers; `refused` more of max will not come.
  Decision decide(Instant now, std::size_t nodes, std::size_t workers, std::size_t refused,
                  const Leadership& leadership);
  /// Since begin(), decide() saw enough nodes; and did so the last time.
  [[nodiscard]] bool is_held_back() const { return held_back_; }

  /// Those that elected this coordinator, or start with it, are on their way, as far as they are
  /// not among `nodes`.
  [[nodiscard]] bool waits_for_followers(Instant now, std::size_t nodes) const;
  /// Up to then.
  [[nodiscard]] Instant expects_until() const { return expects_until_; }
  /// A node that is cut off may still run workers of the world before.
  [[nodiscard]] bool waits_for_old_world(Instant now, const Leadership& leadership) const;
  [[nodiscard]] bool is_paused(Instant now) const { return now < not_before_; }
  [[nodiscard]] Instant backs_off_until() const { return backs_off_until_; }
  /// When to ask again at the latest. `gathers`: a world is waited for, not the end of the job.
  [[nodiscard]] Instant next_deadline(Instant now, bool gathers, std::size_t nodes,
                                      const Leadership& leadership) const;

  [[nodiscard]] const Gathering& gathering() const { return gathering_; }
  [[nodiscard]] const OldWorldFence& fence() const { return fence_; }
  [[nodiscard]] OldWorldFence& fence() { return fence_; }
  /// A world is handed out: whoever is not in it is not waited for.
  void handed_out();

 private:
  Gathering gathering_;
  OldWorldFence fence_;
  bool fence_told_ = false;          ///< to people
  std::size_t expected_ = 0;         ///< nodes known to be alive; 0: this is no successor
  Instant expects_until_{};          ///< how long it waits for them
  std::map<VoterId, Instant> away_;  ///< of the world that runs: by when each is back
  std::chrono::nanoseconds heartbeat_timeout_;
  std::set<NodeId> awaited_;    ///< see await_word_of()
  Instant words_by_{};          ///< for how long they are waited for
  Instant quiet_since_{};       ///< a wait begins anew from then on
  Instant not_before_{};        ///< the next plan
  Instant backs_off_until_{};   ///< see back_off()
  Instant plan_pause_{};        ///< since the last plan that was upset; see put_off_plan()
  Instant plan_given_up_at_{};  ///< the newest one, unless it is committed by then
  bool held_back_ = false;
};

}  // namespace ddprun
