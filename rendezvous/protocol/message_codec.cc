#include "rendezvous/protocol/message_codec.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/protocol/frame.h"
#include "rendezvous/protocol/wire_archive.h"
#include "rendezvous/protocol/wire_membership.h"

namespace ddprun {
namespace {

using namespace message;

// The fields of each message, in the order of the wire. One list serves both directions, so that
// they cannot differ. A change of any list needs a new kProtocolVersion. But Rejected must never
// change: by it two versions show people why they do not work together. The last argument of
// `enumeration` is the last enumerator. A value beyond it ends the connection, as any value beyond
// its limits does.

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

// Its sender calls bound_records() before: a frame of an agent has 1 MiB at most.
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
  a.text(v.notice, kSentenceBytesMax);
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
  id(a, v.instance);
  fields(Tag<HostIdentity>{}, a, v.host);
  a.boolean(v.at_first_endpoint);
}

// Read by all versions, older and newer ones: two texts, for ever.
template <class A, class V>
void fields(Tag<Rejected>, A& a, V& v) {
  a.text(v.why, kSentenceBytesMax);
  a.text(v.todo, kSentenceBytesMax);
}

// Ten thousand copies go out at once, so it has a constant number of bytes: one world, not a list
// of nodes. Workers find each other through the store.
template <class A, class V>
void fields(Tag<Assigned>, A& a, V& v) {
  fields(Tag<World>{}, a, v.world);
  id(a, v.configuration);
  id(a, v.term);
  a.integer(v.others, 0, kWorldSizeMax);
  id(a, v.instance);
  kNanoseconds(a, v.job_age);
}

template <class A, class V>
void fields(Tag<TellWorld>, A& a, V& v) {
  attempt_number(a, v.attempt);
  id(a, v.configuration);
  id(a, v.term);
  id(a, v.instance);
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

// Bounded rows, and the same for all: thousands of nodes may wait at once.
template <class A, class V>
void fields(Tag<Waiting>, A& a, V& v) {
  fields(Tag<RendezvousStatus>{}, a, v.table);
}

// A stamp is the coordinator's clock, which only the coordinator reads: any number is good here.
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

// Raft's entry (membership/leadership.h), with all that a successor needs. Its timeout is one at
// least: a successor waits for it, and zero would let two worlds run at once.
template <class A, class V>
void fields(Tag<VoterState>, A& a, V& v) {
  a.integer(v.place, 0, kIntMax);
  fields(Tag<ReplicatedState>{}, a, v.replicated);
  a.list(v.nodes, kNodesInMessageMax,
         [](auto& ar, auto& one) { fields(Tag<VoterAddress>{}, ar, one); });
  a.integer(v.stamp);
  fields(Tag<JobSummary>{}, a, v.so_far);
  a.integer(v.min_nodes, 1, kNodesMax);
  a.integer(v.max_nodes, 1, kNodesMax);
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
void fields(Tag<MoreNodes>, A& a, V& v) {
  a.list(v.nodes, kNodesInMessageMax,
         [](auto& ar, auto& one) { fields(Tag<VoterAddress>{}, ar, one); });
}

template <class A, class V>
void fields(Tag<Farewell>, A& a, V& v) {
  a.text(v.why, kSentenceBytesMax);
}

template <class A, class V>
void fields(Tag<Leaving>, A&, V&) {}

template <class A, class V>
void fields(Tag<DrainNode>, A& a, V& v) {
  a.text(v.node, kNameBytesMax);
}

template <class A, class V>
void fields(Tag<DrainAnswer>, A& a, V& v) {
  a.text(v.why_not, kSentenceBytesMax);
}

template <class A, class V>
void fields(Tag<AskToLeave>, A&, V&) {}

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
void fields(Tag<StateKept>, A& a, V& v) {
  id(a, v.configuration);
  a.integer(v.stamp);
}

// Raft's RequestVote (Ongaro's dissertation, section 3.4), with the voter that is asked. Another
// life of an agent at that address has another memory, so it must not answer.
template <class A, class V>
void fields(Tag<AskVote>, A& a, V& v) {
  a.text(v.job_id, kJobIdBytesMax);
  id(a, v.voter);
  id(a, v.request.term);
  id(a, v.request.candidate);
  id(a, v.request.log_position.settled);
  id(a, v.request.log_position.newest);
  id(a, v.request.log_position.since);
  attempt_number(a, v.request.attempt);
}

// Beside Raft's verdict, what the voter stores and was assigned: from these the candidate concludes
// which configurations may be in use (membership/election.h).
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

// Any process that reaches the port may send it. So it names job, instance and voter, and the
// reader compares them (node/leader_call.h).
template <class A, class V>
void fields(Tag<Follow>, A& a, V& v) {
  a.text(v.job_id, kJobIdBytesMax);
  id(a, v.term);
  a.list(v.addresses, kAddressesMax, kAddress);
  a.integer(v.port);
  a.optional(v.to_endpoint, [](auto& ar, auto& job) {
    ar.integer(job.min_nodes, 1, kNodesMax);
    ar.integer(job.max_nodes, 1, kNodesMax);
    ar.integer(job.max_restarts, 0, kIntMax);
    ar.boolean(job.require_same_env);
  });
  id(a, v.instance);
  id(a, v.voter);
}

template <class A, class V>
void fields(Tag<Moved>, A& a, V& v) {
  id(a, v.term);
  a.list(v.addresses, kAddressesMax, kAddress);
  a.integer(v.port);
  id(a, v.from);
  id(a, v.instance);
}

/// A message's type on the wire is its place in the variant, from 1: a new message goes to the end
/// of the list. Bytes that are left over are an error, too, for they mean that the peer's list
/// differs.
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
    return Error{fmt::format("a message of type {} is malformed", I + 1), {}, {}};
  } else {
    return Error{"a message has the unknown type " + std::to_string(index + 1), {}, {}};
  }
}

std::string encode_whole(const Message& message) {
  static_assert(std::variant_size_v<Message> < 256, "a type is one byte");
  DDP_CHECK(!message.valueless_by_exception(), "a message is one of its kinds");
  Writer writer;
  std::visit([&](const auto& kind) { fields(Tag<std::decay_t<decltype(kind)>>{}, writer, kind); },
             message);
  return frame(static_cast<std::uint8_t>(message.index() + 1), writer.bytes());
}

/// The one part of a message that grows with the life of a job, and may be cut: the history. Null
/// where there is none.
JobSummary* summary_in(Message& message) {
  if (auto* hello = std::get_if<Hello>(&message)) {
    return hello->node.copy ? &hello->node.copy->so_far : nullptr;
  }
  if (auto* finish = std::get_if<Finish>(&message)) {
    return &finish->summary;
  }
  if (auto* state = std::get_if<VoterState>(&message)) {
    return &state->so_far;
  }
  auto* story = std::get_if<Story>(&message);
  return story != nullptr ? &story->so_far : nullptr;
}

/// A Finish goes to all nodes at once, and waits in this process until each has read its copy. So
/// its limit falls with their number. The others go to a few voters, or are small.
std::size_t bytes_max_of(const Message& message, std::size_t receivers) {
  if (std::holds_alternative<Hello>(message)) {
    return kAgentFrameBytesMax;
  }
  if (!std::holds_alternative<Finish>(message)) {
    return kCoordinatorFrameBytesMax;
  }
  return std::clamp(kFinishCopiesBytesMax / std::max<std::size_t>(receivers, 1), kFinishBytesMin,
                    kCoordinatorFrameBytesMax);
}

std::size_t evidence_in(const FailureRecord& record) {
  return record.error_file_json.size() + record.stderr_tail.size() + record.stack.size();
}

void drop_evidence(FailureRecord& record) {
  record.error_file_json.clear();
  record.stderr_tail.clear();
  record.stack.clear();
  DDP_CHECK(evidence_in(record) == 0, "a record without evidence takes no room for it");
}

/// Until so many bytes are gone, from the oldest incident on. The first record of the last incident
/// stays: it is the cause for which people read the summary.
void drop_evidence(JobSummary& summary, std::size_t excess) {
  DDP_CHECK(excess > 0, "evidence is dropped for want of room");
  for (Incident& incident : summary.incidents) {
    const bool is_last = &incident == &summary.incidents.back();
    for (std::size_t i = is_last ? 1 : 0; i < incident.records.size() && excess > 0; ++i) {
      excess -= std::min(excess, evidence_in(incident.records[i]));
      drop_evidence(incident.records[i]);
    }
  }
}

}  // namespace

/// A hello with a voter's copy of the state is the only message of an agent that can grow with the
/// job.
std::string encode(const Message& message) {
  const auto* hello = std::get_if<Hello>(&message);
  return hello != nullptr && hello->node.copy ? encode_bounded(message) : encode_whole(message);
}

Result<Message> decode(std::uint8_t type, std::string_view payload) {
  if (type == 0) {
    return Error{"a message has no type", {}, {}};
  }
  return decode_as(type - std::size_t{1}, payload);
}

/// Encodes, and only then looks at the size: nearly every message fits, and is never copied.
std::string encode_bounded(const Message& message, std::size_t receivers) {
  std::string bytes = encode_whole(message);
  const std::size_t limit = bytes_max_of(message, receivers);
  DDP_CHECK(limit >= kFinishBytesMin, "the cause of a failure has room");
  if (bytes.size() <= limit) {
    return bytes;
  }
  Message shorter = message;
  JobSummary* const summary = summary_in(shorter);
  if (summary == nullptr) {
    return bytes;
  }
  drop_evidence(*summary, bytes.size() - limit);
  bytes = encode_whole(shorter);
  // Evidence was not enough. The newest incidents stay, for they explain the end of the job.
  while (bytes.size() > limit && !summary->incidents.empty()) {
    summary->incidents.erase(summary->incidents.begin());
    ++summary->incidents_dropped;
    bytes = encode_whole(shorter);
  }
  return bytes;
}

/// The order is the one in which people look for a cause. Workers that failed by themselves come
/// before those that were stopped or lost a peer, and of each the one that failed first (the
/// largest age).
int bound_records(std::vector<FailureRecord>& records) {
  std::sort(records.begin(), records.end(), [](const FailureRecord& a, const FailureRecord& b) {
    return std::tuple(a.after_stop && !a.own_error, a.peer_lost, -a.age, a.rank) <
           std::tuple(b.after_stop && !b.own_error, b.peer_lost, -b.age, b.rank);
  });
  int dropped = 0;
  if (records.size() > kIncidentRecordsMax) {
    dropped = static_cast<int>(records.size() - kIncidentRecordsMax);
    records.resize(kIncidentRecordsMax);
  }
  std::size_t bytes = 0;
  for (FailureRecord& record : records) {
    bytes += evidence_in(record);
    if (bytes > kIncidentEvidenceBytesMax) {
      DDP_CHECK(bytes >= evidence_in(record), "a sum is no less than its last part");
      bytes -= evidence_in(record);
      drop_evidence(record);
    }
  }
  DDP_CHECK(records.size() <= kIncidentRecordsMax, "as many records as the frame has room for");
  DDP_CHECK(bytes <= kIncidentEvidenceBytesMax, "and as much evidence");
  DDP_CHECK(dropped >= 0, "records are dropped, never added");
  return dropped;
}

}  // namespace ddprun
