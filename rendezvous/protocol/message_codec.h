// Message codec: messages to frames and back. Pure. Decoding is total: any bytes give a message or
// an Error, never more memory than the bytes have, and never a value outside its limits.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

/// Longest texts on the wire. A longer one is cut by the encoder, and refused by the decoder.
inline constexpr std::size_t kNameBytesMax = 256;       // host name, role, addresses
inline constexpr std::size_t kJobIdBytesMax = 1024;     // --rdzv-id
inline constexpr std::size_t kProgramBytesMax = 4096;   // program's name
inline constexpr std::size_t kSentenceBytesMax = 2048;  // reasons, messages
inline constexpr std::size_t kPathBytesMax = 4096;
inline constexpr std::size_t kAddressesMax = 16;  // of one node
/// No term that is decoded is later. A candidate raises the newest term that it was sent: from the
/// largest number it would go back to 0. A ConfigurationNumber has 28 bits for a term, and a job
/// with an election in each second would get to this one after four years.
inline constexpr Term kTermMax{1U << 27U};
/// No attempt number that is decoded is later. The next one is above it by one, by two for each
/// term in between, or by kUnknownMax (leadership.h): from here on no such sum goes back to 0.
inline constexpr AttemptNumber kAttemptMax{1U << 31U};
static_assert(std::uint64_t{number(kAttemptMax)} + 4 * std::uint64_t{number(kTermMax)} <=
              std::numeric_limits<std::uint32_t>::max());
/// Nodes in one message; of more, the rest come in further ones (message::MoreNodes).
inline constexpr std::size_t kNodesInMessageMax = 1'024;

/// A whole frame (frame.h). A Hello loses the oldest incidents that it remembers until it is within
/// kAgentFrameBytesMax.
std::string encode(const message::Message& message);

/// The message in a frame's type and payload.
Result<message::Message> decode(std::uint8_t type, std::string_view payload);

/// What all copies of a Finish together may take: most of them wait in the coordinator's memory
/// until the nodes have read them.
inline constexpr std::size_t kFinishCopiesBytesMax = 256UL * 1024 * 1024;
/// However many nodes there are, the evidence of one worker has room in a Finish.
inline constexpr std::size_t kFinishBytesMin = 128UL * 1024;

/// A frame of a coordinator's for so many receivers. Until it is within kCoordinatorFrameBytesMax,
/// and a Finish also within its part of kFinishCopiesBytesMax, the summary in it loses evidence,
/// that of the oldest incidents first and that of the last cause never, and then its oldest
/// incidents.
std::string encode_bounded(const message::Message& message, std::size_t receivers = 1);

/// Keeps at most kIncidentRecordsMax records and kIncidentEvidenceBytesMax bytes of evidence, those
/// first that may be the cause: workers that failed by themselves, the earliest first. Returns the
/// number of records dropped. For the sender of Stopped, whose frame must stay within its limit.
int bound_records(std::vector<FailureRecord>& records);

}  // namespace ddprun
