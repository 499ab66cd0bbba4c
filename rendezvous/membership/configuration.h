// Configuration: the voters of a job, and what the coordinator replicates to its standbys so that
// one of them can continue when the coordinator's host is gone. Plain values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rendezvous/membership/world.h"

namespace ddprun {

/// One coordinator's leadership, from 1; the next coordinator of the job has a higher one.
enum class Term : std::uint32_t {};
/// One process life of an agent, drawn at random. A restarted agent is a new voter: the votes of
/// its former life are not its own.
enum class VoterId : std::uint64_t {};

constexpr std::uint32_t number(Term term) {
  return static_cast<std::uint32_t>(term);
}
constexpr std::uint64_t number(VoterId id) {
  return static_cast<std::uint64_t>(id);
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

/// Who decides for the job: the nodes of its newest world, and witnesses.
struct Configuration {
  ConfigurationNumber number{};
  std::vector<VoterId> voters;

  friend bool operator==(const Configuration&, const Configuration&) = default;
};

/// Of a replicated state.
inline constexpr std::size_t kBeforeMax = 4;

/// A new configuration is replicated to all standbys, then prepared by a quorum of the old one,
/// then committed. So every node that can be elected knows it, or is refused by a voter that does.
struct ReplicatedState {
  Term term{};
  Term since{};  ///< of the coordinator, until a world of this configuration is handed out
  VoterId coordinator{};
  AttemptNumber attempt{};  ///< the newest when this was sent
  Configuration configuration;
  /// What may be in use instead, newest first: one, or more where coordinators died one after the
  /// other before they handed out a world. None for a first world.
  std::vector<Configuration> before;
  ConfigurationNumber settled{};  ///< all up to this one are dropped, or among these
  /// The job is over, and this configuration announces nothing but that: whoever knows of it hands
  /// out no world any more.
  bool ends = false;

  [[nodiscard]] LogPosition log_position() const { return {settled, configuration.number, since}; }
  /// All of them, newest first.
  [[nodiscard]] std::vector<const Configuration*> configurations() const {
    std::vector<const Configuration*> all{&configuration};
    for (const Configuration& one : before) {
      all.push_back(&one);
    }
    return all;
  }
  friend bool operator==(const ReplicatedState&, const ReplicatedState&) = default;
};

/// What a voter has promised. Its agent sends it with its Hello: a coordinator of an older term has
/// to raise its term above this one before it may count on this voter (leadership.h).
struct Promise {
  Term term{};                          ///< the newest that it followed, or gave its vote for
  VoterId to{};                         ///< the coordinator of that term, or who stood for it
  ConfigurationNumber configuration{};  ///< the newest that it has prepared for

  friend bool operator==(const Promise&, const Promise&) = default;
};

/// The last state that this agent saw. Sent in Hello so that a coordinator that started without any
/// (a restarted process at the endpoint) can resume the job instead of starting a second one.
struct Past {
  Term term{};
  AttemptNumber attempt{};
  ConfigurationNumber configuration{};
  int voters = 0;                 ///< of that configuration
  std::optional<int> group_rank;  ///< its own, in that attempt; none: no world was handed out to it
  /// That coordinator was at the job's first endpoint: who holds it now knows that it is no more.
  bool at_endpoint = false;
  /// When that coordinator was last certainly there, on the agent's clock
  /// (NodeDescription::said_at).
  std::chrono::nanoseconds contact_at{};
  /// Its kernel closed the connection then, as it does when the process dies.
  bool saw_close = false;
  /// No lease that it gave was longer, as far as this agent was told.
  std::chrono::milliseconds heartbeat_timeout{};

  friend bool operator==(const Past&, const Past&) = default;
};

}  // namespace ddprun
