// RendezvousStatus: what a job that waits for nodes tells people: who is here, who was refused and
// why, who came and was lost, how many are missing, how long until the deadline. Plain values,
// bounded, so that it stays a few lines for a thousand nodes. agent/status_text makes lines of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// Rows of each kind. Beyond it the nodes that are here are told by their folded names, of the
/// refused and lost the newest stay.
inline constexpr std::size_t kWaitingRowsMax = 8;
/// Missing --node-ranks that are named.
inline constexpr std::size_t kMissingRanksMax = 8;
/// Bytes of folded names.
inline constexpr std::size_t kFoldedNamesBytesMax = 400;

/// A node that is here.
struct NodeHere {
  std::string host_name;
  std::string address;  ///< numeric, from which it came; empty for the node that hosts the endpoint
  int workers = 1;      ///< 0: it votes, and runs none
  std::optional<int> node_rank;
  bool hosts_coordinator = false;
  std::chrono::nanoseconds here_for{};
  friend bool operator==(const NodeHere&, const NodeHere&) = default;
};

/// A node that was refused, or was here and is lost.
struct NodeGone {
  std::string host_name;  ///< empty when it never said
  std::string address;
  std::string why;  ///< a clause
  int times = 1;    ///< that the same has happened
  std::chrono::nanoseconds ago{};
  friend bool operator==(const NodeGone&, const NodeGone&) = default;
};

struct RendezvousStatus {
  enum class For : std::uint8_t {
    nodes,      ///< fewer than min are here
    last_call,  ///< enough are here, more may come for a while
    turn,       ///< this node is none of the attempt that runs; `note` says why
  };
  For waits_for = For::nodes;
  int min_nodes = 1;
  int max_nodes = 1;
  int nodes_here = 0;
  int workers_here = 0;
  std::chrono::nanoseconds waited{};
  /// Until the job is given up, or starts with those that are here; none for a turn.
  std::optional<std::chrono::nanoseconds> left;
  /// All that are here, the longest here first; empty when they are more than kWaitingRowsMax:
  std::vector<NodeHere> here;
  std::string names_here;  ///< then these: "n1-n4, n7 and 3 more"
  std::vector<NodeGone> refused;
  int refused_more = 0;
  std::vector<NodeGone> lost;
  int lost_more = 0;
  /// When every node has a --node-rank: those that nobody has.
  std::vector<int> missing_ranks;
  /// The scheduler's hosts that are not here, folded; empty where they are not known.
  std::string missing_hosts;
  std::string note = {};  ///< one sentence more, may be empty
  friend bool operator==(const RendezvousStatus&, const RendezvousStatus&) = default;
};

/// "n1-n4, n7": names in natural order, runs of numbers folded, in at most `bytes_max` bytes (then
/// "... and 3 more").
std::string fold_names(std::vector<std::string> names,
                       std::size_t bytes_max = kFoldedNamesBytesMax);

}  // namespace ddprun
