// NameLookup: asks the name service for a host's addresses. The first of several name servers may
// be down, and the next one answers after five seconds (resolv.conf(5), timeout): later than a
// search waits. So a question goes on, and its answer is kept for the next time that it is asked.
// Internal to control.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

class NameLookup : public std::enable_shared_from_this<NameLookup> {
 public:
  struct Answer {
    std::vector<std::string> addresses;  ///< numeric; an address may be there twice
    std::string failure;                 ///< the system's words; empty: there are addresses
  };
  /// False: nobody waits for the answer any more.
  using Done = std::function<bool(const Answer&)>;

  /// Held by a shared pointer.
  explicit NameLookup(boost::asio::io_context& io) : resolver_(io) {}

  /// `done` takes the place of the one before. It may be called at once.
  void ask(const std::string& host, Done done);
  /// Nobody asks any more.
  void cancel();

 private:
  void answered(Answer answer);

  boost::asio::ip::tcp::resolver resolver_;
  std::string host_;  ///< asked for last
  Done done_;         ///< null: no question is under way
  std::optional<Answer> kept_;
};

}  // namespace ddprun
