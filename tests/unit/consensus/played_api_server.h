// PlayedApiServer: one Lease at a Kubernetes API server, by its documentation: resourceVersion
// guards each write, and a client gets a Status where it is refused (kubernetes.io/docs/reference/
// using-api/api-concepts; pkg/registry/coordination/lease/strategy.go: a PUT needs a version, and
// may create).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "rendezvous/consensus/kubernetes_answer.h"
#include "rendezvous/http/http_message.h"

namespace ddprun::test {

class PlayedApiServer {
 public:
  std::optional<nlohmann::json> object;

  HttpReply take(LeaseVerb verb, const std::string& body) {
    if (verb == LeaseVerb::get) {
      return object ? HttpReply{200, object->dump()} : status(404, "NotFound");
    }
    nlohmann::json written = nlohmann::json::parse(body);
    nlohmann::json& metadata = written["metadata"];
    if (verb == LeaseVerb::create) {
      if (object) {
        return status(409, "AlreadyExists");
      }
      metadata["uid"] = "uid-" + std::to_string(version_ + 1);
    } else if (!object || (*object)["metadata"]["resourceVersion"] != metadata["resourceVersion"] ||
               (*object)["metadata"]["uid"] != metadata["uid"]) {
      return status(409, "Conflict");
    }
    metadata["resourceVersion"] = std::to_string(++version_);
    object = std::move(written);
    return {verb == LeaseVerb::create ? 201U : 200U, object->dump()};
  }

  static HttpReply status(unsigned code, const std::string& reason) {
    return {code, nlohmann::json{{"kind", "Status"},
                                 {"reason", reason},
                                 {"message", reason},
                                 {"details", {{"kind", "leases"}}}}
                      .dump()};
  }

 private:
  int version_ = 0;
};

}  // namespace ddprun::test
