// LeaderLease: how old a coordinator's contact with its quorum is, and when it may lead no more.
// Pure; the owner has the timer.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/node/quorum_contact.h"

namespace ddprun {

class LeaderLease {
 public:
  using Age = std::chrono::nanoseconds;

  /// What is watched; the coordinator's.
  class Quorum {
   public:
    Quorum() = default;
    Quorum(const Quorum&) = delete;
    Quorum& operator=(const Quorum&) = delete;
    virtual ~Quorum() = default;
    enum class Need : std::uint8_t {
      none,   ///< no workers live
      rests,  ///< they do, and need nobody but the coordinator to go on; nor is it outdated
      later,  ///< others will be needed once there are workers
      now,
    };
    [[nodiscard]] virtual Need need() const = 0;
    /// The time of the last contact; not cheap.
    [[nodiscard]] virtual Instant contact(Instant now) const = 0;
    /// Nodes know of a newer configuration than this coordinator (Leadership::outdated).
    [[nodiscard]] virtual bool outdated() const = 0;
  };

  /// `quorum` outlives this.
  LeaderLease(Age heartbeat_timeout, const Quorum& quorum)
      : heartbeat_timeout_(heartbeat_timeout), quorum_(quorum) {}

  /// Watches from here on: due() is the next time to call time_passed(). To be called again when
  /// the need for the quorum grows.
  void start(Instant now);
  void stop() { due_.reset(); }
  [[nodiscard]] std::optional<Instant> due() const { return due_; }
  /// A clause, once, when this coordinator may lead no more: its contact is nine tenths of the
  /// heartbeat timeout old (its own workers have no heartbeat that would end them, and but a tenth
  /// to end), or it has been outdated for a heartbeat timeout.
  std::optional<std::string> time_passed(Instant now);
  /// A world is handed out, and another configuration may be in use. A clause: the contact is too
  /// old for any worker to begin.
  std::optional<std::string> restart(Instant now);

  /// None where it is not needed. The contact is looked at anew up to sixty times in a
  /// heartbeat timeout; in between the old one serves, which only makes the age larger.
  std::optional<Age> age(Instant now);
  /// What agents are told. 0 where it will be needed: their beats come at the pace of that already,
  /// so that a world which is handed out begins with a contact that is young enough.
  std::optional<Age> advertised_age(Instant now);

 private:
  std::optional<std::string> lost(Instant now);
  bool outdated_for_long(Instant now);

  Age heartbeat_timeout_;
  const Quorum& quorum_;
  std::optional<Instant> due_;  ///< none: it does not watch
  Instant contact_at_ = kNever;
  Instant looked_at_ = kNever;
  std::optional<Instant> outdated_since_;
};

}  // namespace ddprun
