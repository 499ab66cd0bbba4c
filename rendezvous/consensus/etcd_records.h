// What of a job lies in etcd, as requests of its JSON gateway and their answers. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/node/service_question.h"

namespace ddprun {

/// Where a job's keys are.
struct EtcdKeys {
  explicit EtcdKeys(const std::string& job_id);
  std::string leader;
  std::string term;
  std::string state;
};

nlohmann::json read_question(const EtcdKeys& keys);
/// The answer to it, whatever bytes somebody wrote there.
Result<ServiceView> view_of(const EtcdKeys& keys, const nlohmann::json& answer);

nlohmann::json transaction_question(const EtcdKeys& keys, const ServiceTransaction& transaction);

/// In which the keys were last written; 0: there is none.
struct RevisionsNow {
  std::int64_t leader = 0;
  std::int64_t state = 0;
};
/// Of the answer to a transaction whose conditions did not hold.
Result<RevisionsNow> revisions_now(const nlohmann::json& answer);

/// A text of an answer, whatever is there; empty: none.
std::string text_at(const nlohmann::json& object, const char* name);
/// Of a transaction: whether its conditions held.
bool has_succeeded(const nlohmann::json& answer);
/// Of the whole store when it answered; 0: it does not say.
std::int64_t revision_of(const nlohmann::json& answer);

}  // namespace ddprun
