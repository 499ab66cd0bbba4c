// Herald: tells electors that do not follow who reigns now, again and again, less and less often.
// Internal to control.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "rendezvous/control/message.h"

namespace ddprun {

class Herald : public std::enable_shared_from_this<Herald> {
 public:
  /// `absent` says who is to be told. Begins at once; ends with the object.
  static std::shared_ptr<Herald> send(boost::asio::io_context& io, message::Follow news,
                                      std::chrono::milliseconds patience,
                                      std::function<std::vector<message::ElectorAddress>()> absent);

 private:
  Herald(boost::asio::io_context& io, message::Follow news, std::chrono::milliseconds patience,
         std::function<std::vector<message::ElectorAddress>()> absent);
  void tell_all();

  boost::asio::io_context& io_;
  message::Follow news_;
  std::chrono::milliseconds patience_;
  std::function<std::vector<message::ElectorAddress>()> absent_;
  boost::asio::steady_timer timer_;
  std::chrono::milliseconds interval_;
  std::map<ElectorId, std::shared_ptr<void>> calls_;  ///< under way
};

}  // namespace ddprun
