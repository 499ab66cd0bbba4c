#include "agent/output/status_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

using std::chrono::nanoseconds;

std::string counted(int count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string head(const RendezvousStatus& table, nanoseconds since) {
  const bool elastic = table.min_nodes != table.max_nodes;
  const std::string wanted =
      std::to_string(table.min_nodes) + (elastic ? ":" + std::to_string(table.max_nodes) : "");
  const std::string here = fmt::format("{} of {} nodes here", table.nodes_here, wanted);
  // The times are those of the moment when the coordinator sent the table; `since` has passed since
  // then.
  // Rounded up: "0 s" would read as if it were over.
  const nanoseconds left = std::chrono::ceil<std::chrono::seconds>(
      std::max(table.left.value_or(nanoseconds(0)) - since, nanoseconds(0)));
  if (table.waits_for == RendezvousStatus::For::turn) {
    return table.note;
  }
  if (table.waits_for == RendezvousStatus::For::last_call) {
    return here + ", starting in " + duration_text(left) + " unless more come first";
  }
  // More than the minimum may be here, while something else is waited for.
  const int missing = std::max(table.min_nodes - table.nodes_here, 0);
  const std::string so_far = duration_text(table.waited + since) + " so far, ";
  // All are here, and a pause, a quorum or an answer is awaited.
  if (missing == 0) {
    return here + ", the next attempt waits: " + so_far + "up to " + duration_text(left) + " more";
  }
  return here + fmt::format(", waiting for {} more: for ", missing) + so_far + "for up to " +
         duration_text(left) + " from now";
}

/// One row of columns; the last column is not padded.
using Row = std::vector<std::string>;

Row row_of(const NodeHere& node, nanoseconds since) {
  std::string more;
  if (node.node_rank) {
    more += ", node rank " + std::to_string(*node.node_rank);
  }
  if (node.hosts_coordinator) {
    more += ", the coordinator";
  }
  return {"here", node.host_name, node.address.empty() ? "-" : node.address,
          (node.workers == 0 ? "no workers, only votes" : counted(node.workers, "worker")) +
              ", for " + duration_text(node.here_for + since) + more};
}

Row row_of(const std::string& what, const NodeGone& node, nanoseconds since) {
  const std::string times = node.times > 1 ? std::to_string(node.times) + " times, last " : "";
  return {what, node.host_name.empty() ? "-" : node.host_name,
          node.address.empty() ? "-" : node.address,
          times + duration_text(node.ago + since) + " ago: " + node.why};
}

/// `more` counts those that are left out of the message, whose size is bounded.
void add_gone(std::vector<Row>& rows, const std::string& what, const std::vector<NodeGone>& gone,
              int more, nanoseconds since) {
  for (const NodeGone& node : gone) {
    rows.push_back(row_of(what, node, since));
  }
  if (more > 0) {
    rows.push_back({what, std::to_string(more) + " more before"});
  }
}

/// Two blanks stand behind the widest cell of each column. Bytes count, so a name beyond ASCII
/// shifts its row.
std::vector<std::string> aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line = "  ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) {
        line.append(widths[i] - row[i].size() + 2, ' ');
      }
    }
    lines.push_back(printable(std::move(line)));
  }
  return lines;
}

}  // namespace

std::string duration_text(std::chrono::nanoseconds duration) {
  const auto seconds = std::chrono::round<std::chrono::seconds>(duration).count();
  if (seconds < 120) {
    return std::to_string(seconds) + " s";
  }
  if (seconds < 7200) {
    return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  }
  return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
}

std::vector<std::string> waiting_lines(const RendezvousStatus& table, nanoseconds since) {
  std::vector<Row> rows;
  for (const NodeHere& node : table.here) {
    rows.push_back(row_of(node, since));
  }
  // Beyond kWaitingRowsMax nodes the coordinator sends their names in one line and no rows.
  if (table.here.empty() && !table.names_here.empty()) {
    rows.push_back({"here", table.names_here + " (" + counted(table.workers_here, "worker") + ")"});
  }
  // Which nodes are missing is known only where each has a --node-rank.
  if (!table.missing_ranks.empty()) {
    std::string ranks;
    for (const int rank : table.missing_ranks) {
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    }
    const bool several = table.missing_ranks.size() > 1;
    rows.push_back({"missing", (several ? "node ranks " : "node rank ") + ranks});
  }
  if (!table.missing_hosts.empty()) {
    rows.push_back({"missing", table.missing_hosts});
  }
  add_gone(rows, "refused", table.refused, table.refused_more, since);
  add_gone(rows, "lost", table.lost, table.lost_more, since);
  if (!table.note.empty() && table.waits_for != RendezvousStatus::For::turn) {
    rows.push_back({"note", table.note});
  }
  std::vector<std::string> lines = aligned(rows);
  lines.insert(lines.begin(), printable(head(table, since)));
  return lines;
}

}  // namespace ddprun
