// The values that messages are made of, in bytes: numbers with their bounds, enums, durations, ids.
// For message_codec.cc; an archive is a Writer or a Reader (wire_archive.h).
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "rendezvous/membership/world.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {

/// No duration of ours is longer; keeps all sums of durations far from overflow.
inline constexpr std::int64_t kDurationNsMax = std::int64_t{100} * 365 * 86400 * 1'000'000'000;
inline constexpr int kIntMax = std::numeric_limits<int>::max();
/// kNodesMax nodes of kLocalWorldSizeMax workers.
inline constexpr int kWorldSizeMax = 1 << 30;

/// An enum or a duration by its integer.
template <class Archive, class Enum>
void enumeration(Archive& a, Enum& value, int max) {
  auto bits = static_cast<std::uint8_t>(value);
  a.integer(bits, 0, max);
  if constexpr (!std::is_const_v<Enum>) {
    value = static_cast<Enum>(bits);
  }
}

template <class Archive, class Duration>
void duration(Archive& a, Duration& value, std::int64_t min, std::int64_t max) {
  std::int64_t count = value.count();
  a.integer(count, min, max);
  if constexpr (!std::is_const_v<Duration>) {
    value = Duration(count);
  }
}

inline constexpr auto kNanoseconds = [](auto& a, auto& value) {
  duration(a, value, 0, kDurationNsMax);
};
inline constexpr auto kCount = [](auto& a, auto& value) { a.integer(value, 0, kIntMax); };
inline constexpr auto kEpoch = [](auto& a, auto& value) { a.integer(value); };
inline constexpr auto kSnapshotNumber = [](auto& a, auto& value) {
  enumeration(a, value.unit, kSnapshotUnitMax);
  a.integer(value.number);
};

/// The reader alone applies the limit, as that of a term (below).
template <class Archive, class Attempt>
void attempt_number(Archive& a, Attempt& value) {
  auto bits = number(value);
  if constexpr (std::is_same_v<Attempt, AttemptNumber>) {
    a.integer(bits, 0, number(kAttemptMax));
  } else {
    a.integer(bits);
  }
  if constexpr (!std::is_const_v<Attempt>) {
    value = AttemptNumber{bits};
  }
}

/// Term, ConfigurationNumber, VoterId: by their integer. A term has a limit, which only the reader
/// applies: to cut our own to it would name the term of another leader.
template <class Archive, class Id>
void id(Archive& a, Id& value) {
  auto bits = number(value);
  if constexpr (std::is_same_v<Id, Term>) {
    a.integer(bits, 0, number(kTermMax));
  } else {
    a.integer(bits);
  }
  if constexpr (!std::is_const_v<Id>) {
    value = Id{bits};
  }
}
inline constexpr auto kId = [](auto& a, auto& value) { id(a, value); };
inline constexpr auto kAttempt = [](auto& a, auto& value) { attempt_number(a, value); };
inline constexpr auto kAddress = [](auto& a, auto& value) { a.text(value, kNameBytesMax); };

}  // namespace ddprun
