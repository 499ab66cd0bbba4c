// RdzvConf: the text of --rdzv-conf ("KEY=VALUE,..."), read as torchrun reads it, with the values
// that mean something to us. Unknown keys are ignored, as torchrun does; a known key with a bad
// value is an error, whichever backend would have looked at it. Pairs of quotes that a shell would
// have removed are removed; torchrun takes them for parts of the names, and so ignores the keys.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"
#include "rendezvous/tls/tls_context.h"

namespace ddprun {

struct RdzvConf {
  std::optional<std::chrono::seconds> timeout;            ///< static: how long to wait for nodes
  std::optional<std::chrono::seconds> join_timeout;       ///< c10d: the same
  std::optional<std::chrono::seconds> last_call_timeout;  ///< more nodes after the minimum is there
  std::optional<std::chrono::seconds> keep_alive_interval;
  std::optional<int> keep_alive_max_attempt;  ///< intervals without a sign of life; then lost
  std::optional<bool> is_host;
  // Of a service that decides who leads (etcd, kubernetes).
  std::optional<bool> https;  ///< protocol=https; none: as the service is spoken to as a rule
  TlsFiles certificates;      ///< cacert, cert, key
  std::string name_space;     ///< kubernetes: namespace; empty: not given
  std::string token_file;     ///< kubernetes
};

/// `where` names the option or the variable in messages. Each time is at most kTimeMax.
Result<RdzvConf> parse_rdzv_conf(std::string_view text, const std::string& where);

}  // namespace ddprun
