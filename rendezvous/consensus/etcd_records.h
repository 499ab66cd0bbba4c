// What of a job lies in etcd, as requests of its JSON gateway and their answers. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/consensus/consensus_service.h"

namespace ddprun {

/// Where a job's keys are.
struct EtcdKeys {
  explicit EtcdKeys(const std::string& job_id);
  std::string leader;
  std::string term;
  std::string state;
};

/// Number of a lease, as etcd writes it: JSON numbers lose 64 bits.
using EtcdLease = std::string;

nlohmann::json read_question(const EtcdKeys& keys);
/// The answer to it, whatever bytes somebody wrote there.
Result<ServiceView> view_of(const nlohmann::json& answer);

/// Succeeds where nothing has changed since `seen`.
nlohmann::json lead_question(const EtcdKeys& keys, const ServiceView& seen,
                             const LeaderRecord& self, const EtcdLease& lease);
/// Succeeds where the leader's key is the one of `leader_revision`.
nlohmann::json commit_question(const EtcdKeys& keys, std::int64_t leader_revision,
                               const std::string& state, const EtcdLease& lease);
/// Succeeds where the leader's key is still the one of `leader_revision`; writes nothing.
nlohmann::json still_leads_question(const EtcdKeys& keys, std::int64_t leader_revision);
nlohmann::json resign_question(const EtcdKeys& keys, std::int64_t leader_revision,
                               bool job_is_over);

/// A text of an answer, whatever is there; empty: none.
std::string text_at(const nlohmann::json& object, const char* name);
/// Of a transaction: whether its conditions held.
bool has_succeeded(const nlohmann::json& answer);
/// Of the whole store when it answered; 0: it does not say.
std::int64_t revision_of(const nlohmann::json& answer);

}  // namespace ddprun
