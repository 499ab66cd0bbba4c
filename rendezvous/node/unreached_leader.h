// UnreachedLeader: the leaders that a consensus service named, and that this node could not reach:
// which of them people are told of, and when, and which one, or what of the service, is why the
// node has no coordinator at the end. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/membership/event.h"
#include "rendezvous/node/told_recently.h"

namespace ddprun {

class UnreachedLeader {
 public:
  /// A line about it, unless it was told in the last minute: the service names a leader that is
  /// gone until its lease ends, and one behind a firewall for as long as that stands.
  std::optional<std::string> failed(Instant now, const Error& why);
  /// Why it does not answer, or refuses; none: it does by now.
  void service(const std::optional<Error>& trouble) { trouble_ = trouble; }
  /// Why no coordinator was reached: the newest one that failed in the last `recently`; else the
  /// service is what failed since.
  [[nodiscard]] Error verdict(Instant now, std::chrono::milliseconds recently) const;

 private:
  std::optional<Error> newest_;
  std::optional<Error> trouble_;  ///< of the service
  Instant failed_at_{};
  ToldRecently told_;  ///< by where the leader is
};

}  // namespace ddprun
