// KubernetesClient: asks an API server about one Lease, one question at a time, over HTTPS with a
// token that is read from its file each time (Kubernetes renews it), or in plain text through
// `kubectl proxy`. A server that is busy is asked again when it says. Nothing blocks, and time and
// size are bounded.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/consensus/kubernetes_answer.h"
#include "rendezvous/tls/tls_context.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

struct KubernetesAccess {
  Endpoint server;
  std::string name_space;                 ///< a DNS label
  std::string token_file;                 ///< empty: no token is sent
  std::shared_ptr<const TlsContext> tls;  ///< null: plain text
};

class KubernetesClient {
 public:
  using OnReply = std::function<void(LeaseReply reply)>;

  /// `lease`: its name (lease_name.h).
  KubernetesClient(boost::asio::io_context& io, KubernetesAccess access, std::string lease);
  /// What is under way gets no answer any more.
  ~KubernetesClient();
  KubernetesClient(const KubernetesClient&) = delete;
  KubernetesClient& operator=(const KubernetesClient&) = delete;

  /// `body`: of a create or an update. It is sent after `pause`. The answer is never
  /// LeaseReply::Kind::busy: a server that stays busy is an error. It comes on the loop and not
  /// from within. A question may arrive twice.
  void ask(LeaseVerb verb, std::string body, std::chrono::milliseconds pause, OnReply on_reply);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
