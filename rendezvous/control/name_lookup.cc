#include "rendezvous/control/name_lookup.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <optional>
#include <utility>

#include "rendezvous/base/held_signals.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

class SystemLookup final : public NameLookup, public std::enable_shared_from_this<SystemLookup> {
 public:
  SystemLookup(asio::io_context& io, NameLookupOwner& owner) : owner_(owner), resolver_(io) {}

  /// A name service whose first server is dead answers after glibc has turned to the second, five
  /// seconds later. By then the search has gone on, so the answer is kept for its next round.
  void ask(const std::string& host, std::uint64_t round) override {
    const bool same = host == host_;
    round_ = round;
    if (same && kept_) {
      (void)owner_.on_name(round, *std::exchange(kept_, std::nullopt));
      return;
    }
    // The same question is under way: its answer is this one's, too.
    if (same && asking_) {
      return;
    }
    resolver_.cancel();
    kept_.reset();
    host_ = host;
    asking_ = true;
    // Asio asks in a thread of its own, which cancel() does not reach: so the host tells an answer
    // that is too late from the one that is waited for.
    const HeldSignals held;
    resolver_.async_resolve(
        host, "",
        [weak = weak_from_this(), host](boost::system::error_code failed,
                                        const tcp::resolver::results_type& results) {
          const auto self = weak.lock();
          if (self && self->host_ == host && failed != asio::error::operation_aborted) {
            self->take(failed, results);
          }
        });
  }

  /// A question that is under way ends by itself, in Asio's thread; its answer finds no host here.
  void cancel() override {
    resolver_.cancel();
    host_.clear();
    kept_.reset();
    asking_ = false;
  }

 private:
  /// The owner may want the answer in a later round: then it is kept.
  void take(boost::system::error_code failed, const tcp::resolver::results_type& results) {
    NameAnswer answer;
    for (const auto& result : results) {
      answer.addresses.push_back(result.endpoint().address().to_string());
    }
    answer.failure = failed ? failed.message() : std::string();
    asking_ = false;
    if (!owner_.on_name(round_, answer)) {
      kept_ = std::move(answer);
    }
  }

  NameLookupOwner& owner_;
  tcp::resolver resolver_;
  std::string host_;  ///< asked for last; empty: none
  bool asking_ = false;
  std::uint64_t round_ = 0;
  std::optional<NameAnswer> kept_;  ///< nobody waited for it when it came
};

}  // namespace

std::shared_ptr<NameLookup> NameLookup::create(asio::io_context& io, NameLookupOwner& owner) {
  return std::make_shared<SystemLookup>(io, owner);
}

}  // namespace ddprun
