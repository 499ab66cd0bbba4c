// Herald: tells electors that do not follow who reigns now, again and again, less and less often.
// Internal to control.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "rendezvous/control/message.h"

namespace ddprun {

/// What a herald has to know, each time anew.
struct HeraldSource {
  std::function<message::Follow()> news;
  std::function<std::vector<message::ElectorAddress>()> absent;  ///< who is to be told
  /// Where it was told there reigns a coordinator of a later term: who is not to be reigned over.
  std::function<void(const message::Follow&)> outranked;
};

class Herald : public std::enable_shared_from_this<Herald> {
 public:
  /// Begins at once; ends with the object.
  static std::shared_ptr<Herald> send(boost::asio::io_context& io, HeraldSource source,
                                      std::chrono::milliseconds patience);

 private:
  Herald(boost::asio::io_context& io, HeraldSource source, std::chrono::milliseconds patience);
  void tell_all();
  void on_answer(const message::ElectorAddress& from, const std::optional<message::Message>& said);

  boost::asio::io_context& io_;
  HeraldSource source_;
  std::chrono::milliseconds patience_;
  boost::asio::steady_timer timer_;
  std::chrono::milliseconds interval_;
  std::map<ElectorId, std::shared_ptr<void>> calls_;  ///< under way
};

}  // namespace ddprun
