// NodeEnvironment: what of a node's software and settings should be equal on all nodes of a job, as
// its agent found it (agent/environment_facts). Plain values. docs/environment-agreement.md
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// Longest list, name and value; the agent keeps to them.
inline constexpr std::size_t kFactsMax = 128;
inline constexpr std::size_t kFactNameBytesMax = 256;
inline constexpr std::size_t kFactValueBytesMax = 1024;

/// A hash of all the facts: equal ones need no other word.
struct EnvironmentDigest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  /// False: the node told none, and is not compared.
  [[nodiscard]] bool told() const { return high != 0 || low != 0; }
  friend auto operator<=>(const EnvironmentDigest&, const EnvironmentDigest&) = default;
};

struct EnvironmentFact {
  std::string name;  ///< "driver", "NCCL_DEBUG"; a variable begins with a capital letter
  std::string value;
  friend bool operator==(const EnvironmentFact&, const EnvironmentFact&) = default;
};

/// A variable that is not set has no fact. Names are there once.
using NodeEnvironment = std::vector<EnvironmentFact>;

}  // namespace ddprun
