// LeaderAnnouncer: tells voters that do not follow who leads now, again and again, less and less
// often. Internal to control.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "rendezvous/protocol/message.h"

namespace ddprun {

/// What an announcer asks for before each round.
struct AnnouncementSource {
  std::function<message::Follow()> news;
  std::function<std::vector<message::VoterAddress>()> absent;  ///< who is to be told
  /// Where it was told there leads a coordinator of a later term: who is not to be led over.
  std::function<void(const message::Follow&)> outranked;
};

class LeaderAnnouncer : public std::enable_shared_from_this<LeaderAnnouncer> {
 public:
  /// Begins at once; ends with the object.
  static std::shared_ptr<LeaderAnnouncer> send(boost::asio::io_context& io,
                                               AnnouncementSource source,
                                               std::chrono::milliseconds patience);

 private:
  LeaderAnnouncer(boost::asio::io_context& io, AnnouncementSource source,
                  std::chrono::milliseconds patience);
  void announce();
  void on_answer(const message::VoterAddress& from, const std::optional<message::Message>& said);

  boost::asio::io_context& io_;
  AnnouncementSource source_;
  std::chrono::milliseconds patience_;
  boost::asio::steady_timer timer_;
  std::chrono::milliseconds interval_;
  std::map<VoterId, std::shared_ptr<void>> calls_;  ///< under way
};

}  // namespace ddprun
