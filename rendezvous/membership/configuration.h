// Configuration: the voters of a job, and what the coordinator replicates to its standbys so that
// one of them can continue when the coordinator's host is gone. Plain values.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rendezvous/membership/host_identity.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

/// Of a promise; the oldest is dropped.
inline constexpr std::size_t kGrantedMax = 16;

/// One coordinator's leadership, from 1; the next coordinator of the job has a higher one.
enum class Term : std::uint32_t {};
/// One process life of an agent, drawn at random. A restarted agent is a new voter: the votes of
/// its former life are not its own.
enum class VoterId : std::uint64_t {};
/// A consensus service (consensus/consensus_service.h), which is the one voter of its job. Agents
/// draw odd numbers of 63 bits.
inline constexpr VoterId kServiceVoter{1ULL << 62U};
/// One job, from its first coordinator to its end, drawn at random by that coordinator: two jobs
/// may have one id, and meet at one endpoint. 0: of a job without failover, or not known.
enum class JobInstance : std::uint64_t {};

constexpr std::uint32_t number(Term term) {
  return static_cast<std::uint32_t>(term);
}
constexpr std::uint64_t number(VoterId id) {
  return static_cast<std::uint64_t>(id);
}
constexpr std::uint64_t number(JobInstance instance) {
  return static_cast<std::uint64_t>(instance);
}

/// Identifies a configuration. Monotonic across terms: (term, 16 bits of the proposer's id,
/// counter). The proposer's bits keep numbers unique even if a proposer used a term that it was not
/// elected for. Attempts of an unchanged world share one.
enum class ConfigurationNumber : std::uint64_t {};
constexpr std::uint64_t number(ConfigurationNumber configuration) {
  return static_cast<std::uint64_t>(configuration);
}
inline constexpr unsigned kConfigurationCountBits = 20;
inline constexpr unsigned kConfigurationMakerBits = 16;

constexpr Term term_of(ConfigurationNumber configuration) {
  return Term{static_cast<std::uint32_t>(number(configuration) >>
                                         (kConfigurationCountBits + kConfigurationMakerBits))};
}
constexpr std::uint64_t maker_of(ConfigurationNumber configuration) {
  return (number(configuration) >> kConfigurationCountBits) & ((1U << kConfigurationMakerBits) - 1);
}
constexpr std::uint64_t count_of(ConfigurationNumber configuration) {
  return number(configuration) & ((1U << kConfigurationCountBits) - 1);
}
constexpr ConfigurationNumber make_configuration(Term term, VoterId maker, std::uint64_t count) {
  const std::uint64_t bits = number(maker) & ((1U << kConfigurationMakerBits) - 1);
  return ConfigurationNumber{
      ((std::uint64_t{number(term)} << kConfigurationMakerBits | bits) << kConfigurationCountBits) +
      count};
}
constexpr ConfigurationNumber next_configuration(ConfigurationNumber newest, Term term,
                                                 VoterId maker) {
  const ConfigurationNumber first = make_configuration(term, maker, 1);
  const bool goes_on = term_of(newest) == term && maker_of(newest) == maker_of(first);
  return goes_on ? ConfigurationNumber{number(newest) + 1} : first;
}

/// The configurations that a node knows: all up to `settled`, and one leader's own proposals after
/// it, all abandoned but the newest. Configurations of rival leaders in between are not covered and
/// may be committed.
struct LogPosition {
  ConfigurationNumber settled{};
  ConfigurationNumber newest{};
  Term since{};  ///< of that coordinator; for the newest it may have risen to a later one

  [[nodiscard]] constexpr bool covers(ConfigurationNumber configuration) const {
    return configuration <= settled ||
           (configuration <= newest && maker_of(configuration) == maker_of(newest) &&
            (term_of(configuration) == since || term_of(configuration) == term_of(newest)));
  }
  friend bool operator==(const LogPosition&, const LogPosition&) = default;
};

/// Three of seven may be lost at once. More would cost messages, and add little.
inline constexpr std::size_t kVotersMax = 7;

/// Who decides for the job: some nodes of its newest world, and witnesses (leadership.h). All
/// others are learners.
struct Configuration {
  ConfigurationNumber number{};
  std::vector<VoterId> voters;  ///< sorted

  friend bool operator==(const Configuration&, const Configuration&) = default;
};

inline bool holds(const Configuration& configuration, VoterId voter) {
  return std::binary_search(configuration.voters.begin(), configuration.voters.end(), voter);
}

/// Where an agent is reached.
struct VoterAddress {
  VoterId voter{};
  std::string host_name;
  std::vector<std::string> addresses;  ///< numeric
  std::uint16_t port = 0;

  friend bool operator==(const VoterAddress&, const VoterAddress&) = default;
};

/// That the hello of a voter names.
inline constexpr std::size_t kOthersMax = 1'024;

/// Of a replicated state.
inline constexpr std::size_t kBeforeMax = 4;

/// A new configuration is replicated to its voters and to those of the old one, and committed when
/// a quorum of each has acknowledged it. So every node that can be elected knows it, or is refused
/// by a voter that does.
struct ReplicatedState {
  Term term{};
  Term since{};  ///< of the coordinator, until a world of this configuration is handed out
  VoterId coordinator{};
  AttemptNumber attempt{};  ///< the newest when this was sent
  Configuration configuration;
  /// What may be in use instead, newest first: one, or more where coordinators died one after the
  /// other before they handed out a world. None for a first world.
  std::vector<Configuration> before = {};
  ConfigurationNumber settled{};  ///< all up to this one are dropped, or among these
  /// The job is over, and this configuration announces nothing but that: whoever knows of it hands
  /// out no world any more.
  bool ends = false;
  JobInstance instance{};

  [[nodiscard]] LogPosition log_position() const { return {settled, configuration.number, since}; }
  /// All of them, newest first.
  [[nodiscard]] std::vector<const Configuration*> configurations() const {
    std::vector<const Configuration*> all{&configuration};
    for (const Configuration& one : before) {
      all.push_back(&one);
    }
    return all;
  }
  /// Whether it votes in one of them.
  [[nodiscard]] bool involves(VoterId voter) const {
    return holds(configuration, voter) ||
           std::any_of(before.begin(), before.end(),
                       [voter](const Configuration& one) { return holds(one, voter); });
  }
  friend bool operator==(const ReplicatedState&, const ReplicatedState&) = default;
};

/// What a voter has promised. Its agent sends it with its Hello: a coordinator of an older term has
/// to raise its term above this one before it may count on this voter (leadership.h).
struct Promise {
  Term term{};                          ///< the newest that it followed, or gave its vote for
  VoterId to{};                         ///< the coordinator of that term, or who stood for it
  ConfigurationNumber configuration{};  ///< the newest that it keeps, or was handed a world of
  /// The candidates that it granted its vote since it last was in a world, or stored one that was
  /// in use: one of them may lead.
  std::vector<VoterId> granted = {};

  friend bool operator==(const Promise&, const Promise&) = default;
};

/// The last world that this agent was part of, or was told of as a spare. Sent in Hello, so that a
/// coordinator that started without any state (a restarted process at the endpoint) begins no
/// second job, and waits for workers that may still run.
struct Past {
  Term term{};
  AttemptNumber attempt{};
  ConfigurationNumber configuration{};
  std::optional<int> group_rank;  ///< its own, in that attempt; none: no world was handed out to it
  int others = 0;                 ///< nodes of that world, without the coordinator's own
  /// That coordinator was at the job's first endpoint: who holds it now, on the same host, knows
  /// that it is no more.
  bool at_endpoint = false;
  HostIdentity host = {};
  /// When that coordinator was last certainly there, on the agent's clock
  /// (NodeDescription::said_at).
  std::chrono::nanoseconds contact_at{};
  /// Its kernel closed the connection then, as it does when the process dies.
  bool saw_close = false;
  /// No lease that it gave was longer, as far as this agent was told.
  std::chrono::milliseconds heartbeat_timeout{};
  JobInstance instance{};

  friend bool operator==(const Past&, const Past&) = default;
};

}  // namespace ddprun
