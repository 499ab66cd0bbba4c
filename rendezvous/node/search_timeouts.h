// SearchTimeouts: how long each step of the search for a coordinator may take.
#pragma once

#include <chrono>

namespace ddprun {

inline constexpr std::chrono::milliseconds kPauseFirst{50};
inline constexpr std::chrono::milliseconds kPauseMax{1'000};
/// A host that drops packets answers nothing; the next address may.
inline constexpr std::chrono::milliseconds kConnectTimeout{3'000};
/// The same for the first tries: people wait for the reason, and a name may have further addresses.
/// Kernels ask again after a second, and so does the next try.
inline constexpr std::chrono::milliseconds kConnectTimeoutFirst{1'000};
/// A coordinator answers a hello at once; its agent may just be starting.
inline constexpr std::chrono::milliseconds kAnswerTimeout{5'000};
/// How long a taken port of this machine may be a job that is just ending, or an agent that is
/// just starting; and how long a peer may answer in other words than ours before it is final.
inline constexpr std::chrono::milliseconds kTakenPatience{5'000};
inline constexpr std::chrono::milliseconds kStrangerPatience{15'000};
/// A name service that does not answer; the next question may.
inline constexpr std::chrono::milliseconds kResolveTimeout{3'000};
/// Between two questions on this machine's networks: thousands of agents may ask.
inline constexpr std::chrono::milliseconds kLinksPauseFirst{4'000};
inline constexpr std::chrono::milliseconds kLinksPauseMax{60'000};
/// How long who could host waits for an answer from each of the other endpoints.
inline constexpr std::chrono::milliseconds kElsewhereTimeout{1'000};
/// How long a listener that hung up or said nothing may take to say what it is.
inline constexpr std::chrono::milliseconds kProbeTimeout{700};
/// Shortly before the end only the end is told.
inline constexpr std::chrono::milliseconds kLastWords{500};
/// A search elsewhere than at the endpoints that takes longer tells how it goes on.
inline constexpr std::chrono::milliseconds kToldElsewhere{10'000};

}  // namespace ddprun
