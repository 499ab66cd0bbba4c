// JobTls: the certificates of this agent among the agents of its job (--tls-ca, --tls-cert,
// --tls-key), as their files are at each connection. Internal to control.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "rendezvous/tls/tls_context.h"

namespace ddprun {

class JobTls {
 public:
  /// `first`: TlsContext::make_mutual of the files.
  explicit JobTls(std::shared_ptr<const TlsContext> first) : newest_(std::move(first)) {}

  /// For the next connection. Certificates of an hour are replaced while a job runs.
  std::shared_ptr<const TlsContext> newest() {
    auto renewed = TlsContext::renewed(newest_);
    stale_ = renewed ? std::string() : renewed.error().sentence();
    if (renewed) {
      newest_ = std::move(*renewed);
    }
    return newest_;
  }
  /// Why newest() is an older one than its files are; empty: it is not.
  [[nodiscard]] const std::string& stale() const { return stale_; }

 private:
  std::shared_ptr<const TlsContext> newest_;
  std::string stale_;
};

}  // namespace ddprun
