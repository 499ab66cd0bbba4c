#include "rendezvous/control/name_lookup.h"

#include <boost/asio/io_context.hpp>
#include <utility>

#include "rendezvous/base/held_signals.h"

namespace ddprun {

namespace asio = boost::asio;

void NameLookup::ask(const std::string& host, Done done) {
  const bool same = host == host_;
  if (same && kept_) {
    const Answer answer = *std::exchange(kept_, std::nullopt);
    done(answer);
    return;
  }
  const bool under_way = done_ != nullptr;
  done_ = std::move(done);
  if (same && under_way) {
    return;
  }
  resolver_.cancel();
  kept_.reset();
  host_ = host;
  const HeldSignals held;  // Asio asks in a thread of its own
  resolver_.async_resolve(
      host, "",
      [weak = weak_from_this(), host](boost::system::error_code failed,
                                      const asio::ip::tcp::resolver::results_type& results) {
        const auto self = weak.lock();
        if (!self || self->host_ != host || failed == asio::error::operation_aborted) {
          return;
        }
        Answer answer;
        for (const auto& result : results) {
          answer.addresses.push_back(result.endpoint().address().to_string());
        }
        answer.failure = failed ? failed.message() : std::string();
        self->answered(std::move(answer));
      });
}

void NameLookup::answered(Answer answer) {
  if (const Done done = std::exchange(done_, nullptr); done && !done(answer)) {
    kept_ = std::move(answer);
  }
}

void NameLookup::cancel() {
  resolver_.cancel();
  done_ = nullptr;
  host_.clear();
  kept_.reset();
}

}  // namespace ddprun
