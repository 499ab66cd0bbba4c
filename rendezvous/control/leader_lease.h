// LeaderLease: how old a coordinator's contact with its quorum is, and a word to its owner when it
// may be the coordinator no more. Internal to control.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/control/quorum_contact.h"

namespace ddprun {

class LeaderLease : public std::enable_shared_from_this<LeaderLease> {
 public:
  using Age = std::chrono::nanoseconds;
  /// What is watched.
  struct Source {
    /// False where no workers live, or the coordinator needs nobody else for them to go on.
    std::function<bool()> needed;
    /// Others will be needed once there are workers.
    std::function<bool()> needed_later;
    /// The time of the last contact, as seen now; not cheap.
    std::function<Instant(Instant now)> contact;
    /// Nodes know of a newer configuration than this coordinator (Leadership::outdated).
    std::function<bool()> outdated;
  };

  static std::shared_ptr<LeaderLease> create(boost::asio::io_context& io, Age heartbeat_timeout,
                                             Source source,
                                             std::function<void(const std::string& why)> lost);
  /// Calls `lost` once, with a clause: when the age is nine tenths of the heartbeat timeout, for
  /// this node's own workers have no heartbeat that would end them, and not later, for they have
  /// but a tenth to end; or when it has been outdated for a heartbeat timeout.
  void start();
  void stop() {
    watches_ = false;
    timer_.cancel();
  }
  /// None where it is not needed. Looked at anew some twenty times in a heartbeat timeout; in
  /// between the old figure serves, which only makes it older.
  [[nodiscard]] std::optional<Age> age();
  /// What agents are told. 0 where it will be needed: their beats come at the pace of that already,
  /// so that a world which is handed out begins with a contact that is young enough.
  [[nodiscard]] std::optional<Age> advertised_age();
  /// A world is handed out, and another configuration may be in use. False: the contact is too old
  /// for any worker to begin; `lost` was called, where anybody watches.
  bool restart();

 private:
  LeaderLease(boost::asio::io_context& io, Age heartbeat_timeout, Source source,
              std::function<void(const std::string&)> lost);
  void lose(Age age);
  [[nodiscard]] bool outdated_for_long();

  [[nodiscard]] Age age_max() const { return heartbeat_timeout_ - heartbeat_timeout_ / 10; }

  boost::asio::steady_timer timer_;
  bool watches_ = false;
  Age heartbeat_timeout_;
  Source source_;
  std::function<void(const std::string&)> lost_;
  Instant contact_at_ = kNever;
  Instant looked_at_ = kNever;
  std::optional<Instant> outdated_since_;
};

}  // namespace ddprun
