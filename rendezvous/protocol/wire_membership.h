// The fields of what the job's state machine (membership/) is told and tells: worlds, failures,
// incidents, summaries, configurations, nodes, what is waited for. For message_codec.cc, which has
// the messages around them; an archive is a Writer or a Reader (wire_archive.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "rendezvous/membership/incident.h"
#include "rendezvous/membership/job_history.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/membership/rendezvous_status.h"
#include "rendezvous/protocol/wire_history.h"
#include "rendezvous/protocol/wire_values.h"

namespace ddprun {

template <class A, class V>
void fields(Tag<HostIdentity>, A& a, V& v) {
  a.bits(v.boot);
  a.bits(v.network);
  a.bits(v.machine);
}

template <class A, class V>
void fields(Tag<Past>, A& a, V& v) {
  id(a, v.term);
  attempt_number(a, v.attempt);
  id(a, v.configuration);
  a.optional(v.group_rank, kCount);
  a.integer(v.others, 0, kWorldSizeMax);
  a.boolean(v.at_endpoint);
  fields(Tag<HostIdentity>{}, a, v.host);
  kNanoseconds(a, v.contact_at);
  a.boolean(v.saw_close);
  duration(a, v.heartbeat_timeout, 0, kIntMax);
  id(a, v.instance);
}

template <class A, class V>
void fields(Tag<World>, A& a, V& v) {
  attempt_number(a, v.attempt);
  a.integer(v.group_rank, 0, kWorldSizeMax);
  a.integer(v.group_world_size, 1, kWorldSizeMax);
  a.integer(v.base_rank, 0, kWorldSizeMax);
  a.integer(v.world_size, 1, kWorldSizeMax);
  a.integer(v.role_base_rank, 0, kWorldSizeMax);
  a.integer(v.role_world_size, 1, kWorldSizeMax);
  a.integer(v.restarts_used, 0, kIntMax);
  a.text(v.master_addr, kNameBytesMax);
  a.integer(v.master_port);
}

template <class A, class V>
void fields(Tag<FailureRecord>, A& a, V& v) {
  a.text(v.node, kNameBytesMax);
  a.integer(v.group_rank, 0, kWorldSizeMax);
  a.integer(v.rank, 0, kWorldSizeMax);
  a.integer(v.local_rank, 0, kLocalWorldSizeMax);
  a.integer(v.pid, 0, kIntMax);
  enumeration(a, v.exit.kind, 1);
  a.integer(v.exit.value, 0, 255);
  std::int64_t time_us = v.time.time_since_epoch().count();
  a.integer(time_us, std::numeric_limits<std::int64_t>::min());
  duration(a, v.age, 0, kDurationNsMax);
  a.boolean(v.after_stop);
  a.boolean(v.peer_lost);
  a.text(v.message, kSentenceBytesMax);
  a.text(v.error_file_path, kPathBytesMax);
  a.text(v.error_file_json, kErrorFileBytesMax);
  a.text(v.stderr_tail, kStderrTailBytesMax);
  a.text(v.note, kSentenceBytesMax);
  enumeration(a, v.blame, 2);
  a.boolean(v.out_of_memory);
  a.boolean(v.do_not_retry);
  a.boolean(v.hung);
  a.text(v.stack, kStackBytesMax);
  a.text(v.stacks_path, kPathBytesMax);
  a.boolean(v.own_error);
  if constexpr (!std::is_const_v<V>) {
    v.time = std::chrono::sys_time<std::chrono::microseconds>(std::chrono::microseconds(time_us));
  }
}

inline constexpr auto kRecord = [](auto& a, auto& record) {
  fields(Tag<FailureRecord>{}, a, record);
};

template <class A, class V>
void fields(Tag<WorkerPosition>, A& a, V& v) {
  a.integer(v.rank, 0, kWorldSizeMax);
  a.boolean(v.told);
  a.text(v.phase, kPhaseBytesMax);
  a.integer(v.steps);
  a.text(v.operation, kPhaseBytesMax);
  a.integer(v.group, 0, 1);
  a.integer(v.sequence);
  a.integer(v.bytes);
  a.integer(v.entered[0]);
  a.integer(v.entered[1]);
  kNanoseconds(a, v.still_for);
  a.text(v.standstill, kStandstillBytesMax);
}

inline constexpr auto kPosition = [](auto& a, auto& one) { fields(Tag<WorkerPosition>{}, a, one); };

template <class A, class V>
void fields(Tag<Incident>, A& a, V& v) {
  attempt_number(a, v.attempt);
  a.text(v.reason, kSentenceBytesMax);
  a.list(v.records, kIncidentRecordsMax, kRecord);
  a.integer(v.records_dropped, 0, kIntMax);
  a.boolean(v.spent_restart);
  a.boolean(v.node_lost);
  kNanoseconds(a, v.at);
  a.optional(v.downtime, kNanoseconds);
  a.optional(v.resumed_from, kSnapshotNumber);
  a.optional(v.next_attempt, kAttempt);
  enumeration(a, v.kind, kIncidentKindMax);
  fields(Tag<BreakDown>{}, a, v.parts);
  a.optional(v.lost.steps, kEpoch);
  a.optional(v.lost.time, kNanoseconds);
}

template <class A, class V>
void fields(Tag<JobSummary>, A& a, V& v) {
  enumeration(a, v.verdict, 6);
  a.text(v.reason, kSentenceBytesMax);
  a.integer(v.stop_signal, 0, 255);
  a.integer(v.attempts, 0, kIntMax);
  a.integer(v.restarts_used, 0, kIntMax);
  a.integer(v.max_restarts, 0, kIntMax);
  a.list(v.incidents, kIncidentsMax,
         [](auto& ar, auto& incident) { fields(Tag<Incident>{}, ar, incident); });
  a.integer(v.incidents_dropped, 0, kIntMax / 2);
  fields(Tag<TrainingProgress>{}, a, v.progress);
  fields(Tag<Accounts>{}, a, v.accounts);
  fields(Tag<RestartState>{}, a, v.restart_state);
}

template <class A, class V>
void fields(Tag<Configuration>, A& a, V& v) {
  id(a, v.number);
  a.list(v.voters, kVotersMax, kId);
}

template <class A, class V>
void fields(Tag<ReplicatedState>, A& a, V& v) {
  id(a, v.term);
  id(a, v.since);
  id(a, v.coordinator);
  attempt_number(a, v.attempt);
  fields(Tag<Configuration>{}, a, v.configuration);
  a.list(v.before, kBeforeMax, [](auto& ar, auto& one) { fields(Tag<Configuration>{}, ar, one); });
  id(a, v.settled);
  a.boolean(v.ends);
  id(a, v.instance);
}

template <class A, class V>
void fields(Tag<VoterAddress>, A& a, V& v) {
  id(a, v.voter);
  a.text(v.host_name, kNameBytesMax);
  a.list(v.addresses, kAddressesMax, kAddress);
  a.integer(v.port);
}

template <class A, class V>
void fields(Tag<NodeDescription>, A& a, V& v) {
  a.text(v.host_name, kNameBytesMax);
  a.integer(v.agent_pid, 0, kIntMax);
  a.integer(v.local_world_size, 1, kLocalWorldSizeMax);
  a.text(v.role, kNameBytesMax);
  a.optional(v.node_rank, kCount);
  a.optional(v.order_hint, kCount);
  a.boolean(v.hosts_coordinator);
  a.boolean(v.by_endpoint);
  a.text(v.job_id, kJobIdBytesMax);
  a.integer(v.min_nodes, 1, kNodesMax);
  a.integer(v.max_nodes, 1, kNodesMax);
  a.integer(v.max_restarts, 0, kIntMax);
  a.text(v.program, kProgramBytesMax);
  a.boolean(v.witness);
  id(a, v.voter);
  a.list(v.addresses, kAddressesMax, kAddress);
  a.integer(v.port);
  id(a, v.promise.term);
  id(a, v.promise.to);
  id(a, v.promise.configuration);
  a.list(v.promise.granted, kGrantedMax, kId);
  a.optional(v.past, [](auto& ar, auto& past) { fields(Tag<Past>{}, ar, past); });
  a.bits(v.environment.high);
  a.bits(v.environment.low);
  a.boolean(v.require_same_env);
  a.text(v.unable, kSentenceBytesMax);
  a.optional(v.copy, [](auto& ar, auto& copy) {
    fields(Tag<ReplicatedState>{}, ar, copy.replicated);
    fields(Tag<JobSummary>{}, ar, copy.so_far);
    kNanoseconds(ar, copy.told_at);
    ar.boolean(copy.at_endpoint);
    fields(Tag<HostIdentity>{}, ar, copy.host);
    ar.boolean(copy.saw_close);
    ar.list(copy.others, kOthersMax,
            [](auto& inner, auto& one) { fields(Tag<VoterAddress>{}, inner, one); });
  });
  kNanoseconds(a, v.said_at);
}

template <class A, class V>
void fields(Tag<NodeHere>, A& a, V& v) {
  a.text(v.host_name, kNameBytesMax);
  a.text(v.address, kNameBytesMax);
  a.integer(v.workers, 0, kLocalWorldSizeMax);
  a.optional(v.node_rank, kCount);
  a.boolean(v.hosts_coordinator);
  kNanoseconds(a, v.here_for);
}

template <class A, class V>
void fields(Tag<NodeGone>, A& a, V& v) {
  a.text(v.host_name, kNameBytesMax);
  a.text(v.address, kNameBytesMax);
  a.text(v.why, kSentenceBytesMax);
  a.integer(v.times, 1, kIntMax);
  kNanoseconds(a, v.ago);
}

template <class A, class V>
void fields(Tag<RendezvousStatus>, A& a, V& v) {
  const auto gone = [](auto& ar, auto& row) { fields(Tag<NodeGone>{}, ar, row); };
  enumeration(a, v.waits_for, 2);
  a.integer(v.min_nodes, 1, kNodesMax);
  a.integer(v.max_nodes, 1, kNodesMax);
  a.integer(v.nodes_here, 0, kIntMax);
  a.integer(v.workers_here, 0, kIntMax);
  kNanoseconds(a, v.waited);
  a.optional(v.left, kNanoseconds);
  a.list(v.here, kWaitingRowsMax, [](auto& ar, auto& row) { fields(Tag<NodeHere>{}, ar, row); });
  a.text(v.names_here, kSentenceBytesMax);
  a.list(v.refused, kWaitingRowsMax, gone);
  a.integer(v.refused_more, 0, kIntMax);
  a.list(v.lost, kWaitingRowsMax, gone);
  a.integer(v.lost_more, 0, kIntMax);
  a.list(v.missing_ranks, kMissingRanksMax, kCount);
  a.text(v.missing_hosts, kSentenceBytesMax);
  a.text(v.note, kSentenceBytesMax);
}

}  // namespace ddprun
