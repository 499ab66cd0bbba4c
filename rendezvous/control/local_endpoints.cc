#include "rendezvous/control/local_endpoints.h"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "rendezvous/base/held_signals.h"
#include "rendezvous/control/listener.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

bool is_name(const std::string& host) {
  error_code not_numeric;
  asio::ip::make_address(host, not_numeric);
  return not_numeric && !is_loopback_host(host);
}

/// Handlers of names and timer keep it alive; it has no other owner. Asio asks names in a thread of
/// its own, which no cancel() reaches: an answer may come after the end, and finds `done_` empty.
class Search : public std::enable_shared_from_this<Search> {
 public:
  Search(asio::io_context& io, OnLocalKnown done) : io_(io), done_(std::move(done)), timer_(io) {}

  void begin(const std::vector<Endpoint>& endpoints, std::chrono::milliseconds patience) {
    own_.resize(endpoints.size());
    for (std::size_t i = 0; i < endpoints.size(); ++i) {
      const std::string& host = endpoints[i].host;
      if (is_name(host)) {
        ask(i, host);
      } else {
        own_[i] = is_loopback_host(host) || is_own_address(host);
      }
    }
    // Without names there is nothing to wait for. Resolvers never call back from inside of ask().
    if (open_ == 0) {
      finish();
      return;
    }
    timer_.expires_after(patience);
    timer_.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled) {
        self->finish();
      }
    });
  }

 private:
  /// A name may have several addresses, of which one of this machine is enough. A name that cannot
  /// be resolved is taken for another machine's.
  void ask(std::size_t place, const std::string& name) {
    ++open_;
    const HeldSignals held;
    resolvers_.emplace_back(io_).async_resolve(
        name, "",
        [self = shared_from_this(), place](error_code, const tcp::resolver::results_type& found) {
          for (const auto& one : found) {
            self->own_[place] =
                self->own_[place] || is_own_address(one.endpoint().address().to_string());
          }
          if (--self->open_ == 0) {
            self->finish();
          }
        });
  }

  void finish() {
    if (const auto done = std::exchange(done_, nullptr)) {
      timer_.cancel();
      for (tcp::resolver& one : resolvers_) {
        one.cancel();
      }
      done(own_);
    }
  }

  asio::io_context& io_;
  OnLocalKnown done_;
  asio::steady_timer timer_;
  std::list<tcp::resolver> resolvers_;
  std::vector<bool> own_;
  std::size_t open_ = 0;
};

}  // namespace

void resolve_local(asio::io_context& io, const std::vector<Endpoint>& endpoints,
                   std::chrono::milliseconds patience, OnLocalKnown done) {
  std::make_shared<Search>(io, std::move(done))->begin(endpoints, patience);
}

}  // namespace ddprun
