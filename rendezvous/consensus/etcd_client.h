// EtcdClient: asks the members of an etcd cluster, one question at a time, in the order in which
// they were given: JSON over HTTP or HTTPS, by the gateway that every member of etcd 3.4 and later
// has (etcd.io/docs/v3.4/dev-guide/api_grpc_gateway). Where one member does not answer, the next is
// asked. Nothing blocks, and time and size are bounded.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/result.h"
#include "rendezvous/tls/tls_context.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

struct EtcdAccess {
  std::vector<Endpoint> members;  ///< at least one
  std::string user;               ///< empty: etcd asks for none
  std::string password;
  std::shared_ptr<const TlsContext> tls;  ///< null: plain text
};

class EtcdClient {
 public:
  /// The answer, an object. Its error is said by the last member that was asked.
  using OnAnswer = std::function<void(const Result<nlohmann::json>& answer)>;

  EtcdClient(boost::asio::io_context& io, EtcdAccess access);
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  /// `path`: "/v3/kv/txn". A question may arrive twice: when the answer to the first is lost.
  void ask(std::string path, const nlohmann::json& question, OnAnswer on_answer);
  /// Why the newest question had no answer; empty: it had one, if only a refusal.
  [[nodiscard]] const std::string& trouble() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
