#include "rendezvous/protocol/message_codec.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "rendezvous/membership/incident.h"
#include "rendezvous/membership/job_history.h"
#include "rendezvous/protocol/frame.h"
#include "rendezvous/protocol/wire_archive.h"
#include "rendezvous/protocol/wire_history.h"
#include "rendezvous/protocol/wire_values.h"

namespace ddprun {
namespace {

using namespace message;

template <class A, class V>
void fields(Tag<Past>, A& a, V& v) {
  id(a, v.term);
  attempt_number(a, v.attempt);
  id(a, v.configuration);
  a.integer(v.voters, 1, kVotersMax);
  a.optional(v.group_rank, kCount);
  a.boolean(v.at_endpoint);
  kNanoseconds(a, v.contact_at);
  a.boolean(v.saw_close);
  duration(a, v.heartbeat_timeout, 0, kIntMax);
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
  if constexpr (!std::is_const_v<V>) {
    v.time = std::chrono::sys_time<std::chrono::microseconds>(std::chrono::microseconds(time_us));
  }
}

const auto kRecord = [](auto& a, auto& record) { fields(Tag<FailureRecord>{}, a, record); };

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

const auto kPosition = [](auto& a, auto& one) { fields(Tag<WorkerPosition>{}, a, one); };

template <class A, class V>
void fields(Tag<Incident>, A& a, V& v) {
  attempt_number(a, v.attempt);
  a.text(v.reason, kSentenceBytesMax);
  a.list(v.records, kIncidentRecordsMax, kRecord);
  a.integer(v.records_dropped, 0, kIntMax);
  a.boolean(v.spent_restart);
  a.boolean(v.node_lost);
  a.optional(v.downtime, kNanoseconds);
  a.optional(v.resumed_epoch, kEpoch);
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
  fields(Tag<TrainingProgress>{}, a, v.progress);
  fields(Tag<Accounts>{}, a, v.accounts);
  fields(Tag<RestartState>{}, a, v.restart_state);
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
  a.integer(v.min_nodes, 1, kIntMax);
  a.integer(v.max_nodes, 1, kIntMax);
  a.integer(v.max_restarts, 0, kIntMax);
  a.text(v.program, kProgramBytesMax);
  a.boolean(v.witness);
  id(a, v.voter);
  a.list(v.addresses, kAddressesMax, kAddress);
  a.integer(v.port);
  id(a, v.promise.term);
  id(a, v.promise.to);
  id(a, v.promise.configuration);
  a.optional(v.past, [](auto& ar, auto& past) { fields(Tag<Past>{}, ar, past); });
  a.bits(v.environment.high);
  a.bits(v.environment.low);
  a.boolean(v.require_same_env);
  a.text(v.unable, kSentenceBytesMax);
  a.optional(v.history, [](auto& ar, auto& told) {
    id(ar, told.coordinator);
    id(ar, told.term);
    attempt_number(ar, told.attempt);
    fields(Tag<JobSummary>{}, ar, told.so_far);
    kNanoseconds(ar, told.told_at);
  });
  kNanoseconds(a, v.said_at);
}

template <class A, class V>
void fields(Tag<NodeHere>, A& a, V& v) {
  a.text(v.host_name, kNameBytesMax);
  a.text(v.address, kNameBytesMax);
  a.integer(v.workers, 1, kLocalWorldSizeMax);
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
  a.integer(v.min_nodes, 1, kIntMax);
  a.integer(v.max_nodes, 1, kIntMax);
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
  a.text(v.note, kSentenceBytesMax);
}

template <class A, class V>
void fields(Tag<Hello>, A& a, V& v) {
  fields(Tag<NodeDescription>{}, a, v.node);
}

template <class A, class V>
void fields(Tag<Started>, A& a, V& v) {
  attempt_number(a, v.attempt);
}

template <class A, class V>
void fields(Tag<Failed>, A& a, V& v) {
  attempt_number(a, v.attempt);
  fields(Tag<FailureRecord>{}, a, v.record);
}

template <class A, class V>
void fields(Tag<Finished>, A& a, V& v) {
  attempt_number(a, v.attempt);
  fields(Tag<TrainingProgress>{}, a, v.progress);
}

template <class A, class V>
void fields(Tag<Stopped>, A& a, V& v) {
  attempt_number(a, v.attempt);
  a.list(v.records, kIncidentRecordsMax, kRecord);
  a.integer(v.records_dropped, 0, kIntMax);
  fields(Tag<TrainingProgress>{}, a, v.progress);
}

template <class A, class V>
void fields(Tag<Progress>, A& a, V& v) {
  attempt_number(a, v.attempt);
  fields(Tag<TrainingProgress>{}, a, v.progress);
}

template <class A, class V>
void fields(Tag<Hung>, A& a, V& v) {
  attempt_number(a, v.attempt);
  a.list(v.positions, kPositionsMax, kPosition);
  a.text(v.why, kSentenceBytesMax);
}

template <class A, class V>
void fields(Tag<StopRequest>, A& a, V& v) {
  a.integer(v.signal, 0, 255);
  enumeration(a, v.wish, 2);
}

template <class A, class V>
void fields(Tag<GiveUp>, A& a, V& v) {
  a.text(v.why, kSentenceBytesMax);
}

template <class A, class V>
void fields(Tag<Accepted>, A& a, V& v) {
  id(a, v.term);
  id(a, v.coordinator);
  a.integer(v.stamp);
}

template <class A, class V>
void fields(Tag<Rejected>, A& a, V& v) {
  a.text(v.why, kSentenceBytesMax);
  a.text(v.todo, kSentenceBytesMax);
}

template <class A, class V>
void fields(Tag<Assigned>, A& a, V& v) {
  fields(Tag<World>{}, a, v.world);
  id(a, v.configuration);
  id(a, v.term);
}

template <class A, class V>
void fields(Tag<Stop>, A& a, V& v) {
  attempt_number(a, v.attempt);
  a.text(v.reason, kSentenceBytesMax);
  enumeration(a, v.how, 3);
  a.integer(v.signal, 0, 255);
}

template <class A, class V>
void fields(Tag<Finish>, A& a, V& v) {
  fields(Tag<JobSummary>{}, a, v.summary);
}

template <class A, class V>
void fields(Tag<Waiting>, A& a, V& v) {
  fields(Tag<RendezvousStatus>{}, a, v.table);
}

template <class A, class V>
void fields(Tag<Beat>, A& a, V& v) {
  duration(a, v.timeout, 0, kIntMax);
  a.integer(v.stamp);
  a.optional(v.quorum_age, kNanoseconds);
}

template <class A, class V>
void fields(Tag<Echo>, A& a, V& v) {
  a.integer(v.stamp);
}

template <class A, class V>
void fields(Tag<VoterAddress>, A& a, V& v) {
  id(a, v.voter);
  a.text(v.host_name, kNameBytesMax);
  a.list(v.addresses, kAddressesMax, kAddress);
  a.integer(v.port);
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
}

template <class A, class V>
void fields(Tag<StandbyState>, A& a, V& v) {
  a.integer(v.place, 0, kIntMax);
  fields(Tag<ReplicatedState>{}, a, v.replicated);
  a.list(v.voters, 2 * kVotersMax,
         [](auto& ar, auto& one) { fields(Tag<VoterAddress>{}, ar, one); });
  fields(Tag<JobSummary>{}, a, v.so_far);
  a.integer(v.min_nodes, 1, kIntMax);
  a.integer(v.max_nodes, 1, kIntMax);
  a.integer(v.max_restarts, 0, kIntMax);
  a.boolean(v.require_same_env);
  duration(a, v.heartbeat_timeout, 1, kIntMax);
}

template <class A, class V>
void fields(Tag<Story>, A& a, V& v) {
  attempt_number(a, v.attempt);
  fields(Tag<JobSummary>{}, a, v.so_far);
}

template <class A, class V>
void fields(Tag<PrepareConfiguration>, A& a, V& v) {
  id(a, v.configuration);
  id(a, v.term);
  a.integer(v.voters, 0, kVotersMax);
  attempt_number(a, v.attempt);
  a.integer(v.stamp);
}

template <class A, class V>
void fields(Tag<Farewell>, A& a, V& v) {
  a.text(v.why, kSentenceBytesMax);
}

template <class A, class V>
void fields(Tag<Leaving>, A&, V&) {}

template <class A, class V>
void fields(Tag<AskEnvironment>, A&, V&) {}

template <class A, class V>
void fields(Tag<TellIncident>, A& a, V& v) {
  a.text(v.text, kSentenceBytesMax);
}

template <class A, class V>
void fields(Tag<TellEnvironment>, A& a, V& v) {
  a.list(v.environment, kFactsMax, [](auto& ar, auto& fact) {
    ar.text(fact.name, kFactNameBytesMax);
    ar.text(fact.value, kFactValueBytesMax);
  });
}

template <class A, class V>
void fields(Tag<StandbyReady>, A& a, V& v) {
  id(a, v.configuration);
}

template <class A, class V>
void fields(Tag<ConfigurationReady>, A& a, V& v) {
  id(a, v.configuration);
  a.integer(v.stamp);
}

template <class A, class V>
void fields(Tag<AskVote>, A& a, V& v) {
  a.text(v.job_id, kJobIdBytesMax);
  id(a, v.voter);
  id(a, v.request.term);
  id(a, v.request.candidate);
  id(a, v.request.log_position.settled);
  id(a, v.request.log_position.newest);
  id(a, v.request.log_position.since);
}

template <class A, class V>
void fields(Tag<VoteAnswer>, A& a, V& v) {
  enumeration(a, v.vote.verdict, 3);
  id(a, v.vote.newest_term);
  id(a, v.vote.prepared_configuration);
  id(a, v.vote.assigned_configuration);
  a.optional(v.vote.attempt, kAttempt);
  id(a, v.vote.attempt_term);
  kNanoseconds(a, v.vote.lost_for);
  a.boolean(v.vote.saw_close);
}

template <class A, class V>
void fields(Tag<Follow>, A& a, V& v) {
  a.text(v.job_id, kJobIdBytesMax);
  id(a, v.term);
  a.list(v.addresses, kAddressesMax, kAddress);
  a.integer(v.port);
  a.optional(v.to_endpoint, [](auto& ar, auto& job) {
    ar.integer(job.min_nodes, 1, kIntMax);
    ar.integer(job.max_nodes, 1, kIntMax);
    ar.integer(job.max_restarts, 0, kIntMax);
    ar.boolean(job.require_same_env);
  });
}

template <class A, class V>
void fields(Tag<Moved>, A& a, V& v) {
  id(a, v.term);
  a.list(v.addresses, kAddressesMax, kAddress);
  a.integer(v.port);
}

/// A message's type on the wire is its place in the variant, from 1.
template <std::size_t I = 0>
Result<Message> decode_as(std::size_t index, std::string_view payload) {
  if constexpr (I < std::variant_size_v<Message>) {
    if (index != I) {
      return decode_as<I + 1>(index, payload);
    }
    using Kind = std::variant_alternative_t<I, Message>;
    Reader reader(payload);
    Kind decoded;
    fields(Tag<Kind>{}, reader, decoded);
    if (reader.complete()) {
      return Message(std::move(decoded));
    }
    return Error{"a message of type " + std::to_string(I + 1) + " is malformed", {}, {}};
  } else {
    return Error{"a message has the unknown type " + std::to_string(index + 1), {}, {}};
  }
}

std::string encode_whole(const Message& message) {
  Writer writer;
  std::visit([&](const auto& kind) { fields(Tag<std::decay_t<decltype(kind)>>{}, writer, kind); },
             message);
  return frame(static_cast<std::uint8_t>(message.index() + 1), writer.bytes());
}

JobSummary* summary_in(Message& message) {
  if (auto* hello = std::get_if<Hello>(&message)) {
    return hello->node.history ? &hello->node.history->so_far : nullptr;
  }
  if (auto* finish = std::get_if<Finish>(&message)) {
    return &finish->summary;
  }
  if (auto* state = std::get_if<StandbyState>(&message)) {
    return &state->so_far;
  }
  auto* story = std::get_if<Story>(&message);
  return story != nullptr ? &story->so_far : nullptr;
}

}  // namespace

std::string encode(const Message& message) {
  const auto* hello = std::get_if<Hello>(&message);
  return hello != nullptr && hello->node.history ? encode_bounded(message) : encode_whole(message);
}

Result<Message> decode(std::uint8_t type, std::string_view payload) {
  if (type == 0) {
    return Error{"a message has no type", {}, {}};
  }
  return decode_as(type - std::size_t{1}, payload);
}

std::string encode_bounded(Message message) {
  std::string bytes = encode_whole(message);
  const std::size_t limit =
      std::holds_alternative<Hello>(message) ? kAgentFrameBytesMax : kCoordinatorFrameBytesMax;
  if (JobSummary* summary = summary_in(message)) {
    while (bytes.size() > limit && !summary->incidents.empty()) {
      summary->incidents.erase(summary->incidents.begin());
      bytes = encode_whole(message);
    }
  }
  return bytes;
}

int bound_records(std::vector<FailureRecord>& records) {
  std::sort(records.begin(), records.end(), [](const FailureRecord& a, const FailureRecord& b) {
    return std::tuple(a.after_stop, a.peer_lost, -a.age, a.rank) <
           std::tuple(b.after_stop, b.peer_lost, -b.age, b.rank);
  });
  int dropped = 0;
  if (records.size() > kIncidentRecordsMax) {
    dropped = static_cast<int>(records.size() - kIncidentRecordsMax);
    records.resize(kIncidentRecordsMax);
  }
  std::size_t bytes = 0;
  for (FailureRecord& record : records) {
    const std::size_t evidence =
        record.error_file_json.size() + record.stderr_tail.size() + record.stack.size();
    bytes += evidence;
    if (bytes > kIncidentEvidenceBytesMax) {
      bytes -= evidence;
      record.stack.clear();
      record.error_file_json.clear();
      record.stderr_tail.clear();
    }
  }
  return dropped;
}

}  // namespace ddprun
