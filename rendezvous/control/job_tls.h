// JobTls: the certificates of this agent among the agents of its job (--tls-ca, --tls-cert,
// --tls-key), as their files are at each connection. Internal to control.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "rendezvous/tls/tls_context.h"
#include "rendezvous/tls/tls_self_check.h"

namespace ddprun {

class HandshakeTurns;

class JobTls {
 public:
  /// `first`: TlsContext::make_mutual of the files.
  explicit JobTls(std::shared_ptr<const TlsContext> first) : newest_(std::move(first)) {}

  /// For the next connection. Certificates of an hour are replaced while a job runs. Strangers can
  /// open hundreds of connections a second, so files are looked at a few times a second at most.
  std::shared_ptr<const TlsContext> newest() {
    const auto now = std::chrono::steady_clock::now();
    if (now - looked_at_ < kLookEach) {
      return newest_;
    }
    looked_at_ = now;
    auto renewed = TlsContext::renewed(newest_);
    // Those that no peer would take are as good as those that cannot be read.
    if (renewed && *renewed != newest_) {
      if (const auto fit = check_with_itself(*renewed); !fit) {
        renewed = fit.error();
      }
    }
    stale_ = renewed ? std::string() : renewed.error().sentence();
    if (renewed) {
      newest_ = std::move(*renewed);
    }
    return newest_;
  }
  /// Why newest() is an older one than its files are; empty: it is not.
  [[nodiscard]] const std::string& stale() const { return stale_; }
  /// Of those that connect to this agent; null before the first (tls_handshake).
  std::shared_ptr<HandshakeTurns>& turns() { return turns_; }

 private:
  static constexpr std::chrono::milliseconds kLookEach{250};

  std::chrono::steady_clock::time_point looked_at_{};
  std::shared_ptr<HandshakeTurns> turns_;
  std::shared_ptr<const TlsContext> newest_;
  std::string stale_;
};

}  // namespace ddprun
