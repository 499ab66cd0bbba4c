#include "rendezvous/membership/waiting_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/incident.h"
#include "rendezvous/membership/rendezvous_status.h"

namespace ddprun {
namespace {

/// To the nearest, as the agents' tables do: a timeout of 2 s ends a few milliseconds late.
std::string elapsed_text(std::chrono::nanoseconds duration) {
  return std::to_string(std::chrono::round<std::chrono::seconds>(duration).count()) + " s";
}

/// "after 12 s only "
std::string after_text(const WaitingFacts& facts) {
  const Instant since = facts.start.gathering().since();
  DDP_CHECK(since <= facts.now, "a gathering began before it is told of");
  return "after " + elapsed_text(facts.now - since) + " only ";
}

/// "n1, n2 and 7 more": those that can run workers.
std::string names_text(const JobNodes& nodes) {
  std::string text;
  std::size_t named = 0;
  for (const auto& [id, node] : nodes.all()) {
    if (node.witness || node.leaving) {
      continue;
    }
    if (named == kNamesInReasonMax) {
      return fmt::format("{} and {} more", text, nodes.workers_here() - named);
    }
    text += (named == 0 ? "" : ", ") + node.host_name;
    ++named;
  }
  return text.empty() ? "none" : text;
}

/// Without it people would look for the fault in a job that is only being careful. Where a quorum
/// is missing, or the job is over, no attempt begins when the lease ends.
std::string old_world_text(const WaitingFacts& facts) {
  const bool starts = facts.leadership.quorum_follows() && !facts.job_is_over;
  return std::string(
             "a node of the world before is not here, and may run workers until its lease "
             "is over") +
         (starts ? "; then the next attempt begins" : "");
}

/// The job starts at the end of the last call. Without a quorum it does not, and with all nodes
/// that can come there is nobody to wait for.
bool last_call_starts_job(const WaitingFacts& facts) {
  const auto ends = facts.start.gathering().last_call_ends();
  const std::size_t settled = facts.nodes.workers_here() + facts.absent.refused_for_good();
  return ends && *ends > facts.now && facts.leadership.quorum_follows() &&
         settled < static_cast<std::size_t>(facts.options.max_nodes);
}

/// The endpoint's note explains why other nodes may not find it: of use while none has.
bool needs_endpoint_note(const WaitingFacts& facts) {
  return facts.nodes.host_is_alone() && facts.options.max_nodes > 1 &&
         !facts.options.endpoint_note.empty();
}

/// Whether anybody has reached this node, and where they would. Told while the host is alone: the
/// nodes that are missing may say why on a console that people do not see. Of nodes that were here
/// and are lost their rows say more, and those that have left in order had connected.
std::string calls_text(const WaitingFacts& facts) {
  const AbsentNodes::Caller& last = facts.absent.last_caller();
  const std::string& place = facts.options.listens_at;
  if (place.empty() || facts.has_run ||
      (last.address.empty() && !facts.absent.last_lost().empty())) {
    return {};
  }
  return last.address.empty()
             ? "no other node has connected to " + place + " yet"
             : fmt::format("the last connection to {} came from {}, {} ago, and became no node",
                           place, last.address, elapsed_text(facts.now - last.at));
}

/// What to do and why it may be so, after what is the case.
std::string lonely_note(const WaitingFacts& facts) {
  const std::string calls = calls_text(facts);
  return calls.empty() ? facts.options.endpoint_note
                       : calls +
                             "; start ddprun on the missing nodes too, and let the network pass "
                             "TCP to that port; " +
                             facts.options.endpoint_note;
}

/// A job that runs elsewhere calls its endpoint only while it misses a node, and says nothing there
/// when it ends. So nobody here knows whether there is such a job.
bool may_run_elsewhere(const WaitingFacts& facts) {
  return facts.nodes.host_is_alone() && facts.leadership.enabled() &&
         !facts.leadership.instance_is_settled();
}

/// Several may apply at once: a job that is over may lack the quorum that has to store it.
std::string waiting_note(const WaitingFacts& facts, RendezvousStatus::For waits_for) {
  std::string note;
  const auto add = [&note](const std::string& text) { note += (note.empty() ? "" : ": ") + text; };
  if (facts.job_is_over) {
    add("the job is over, and this is being made known");
  }
  if (!facts.leadership.quorum_follows()) {
    add(facts.leadership.quorum_text());
  }
  if (facts.start.is_held_back() && facts.start.backs_off_until() > facts.now) {
    add("attempts in a row failed early");
  }
  if (facts.start.is_held_back() && facts.start.waits_for_old_world(facts.now, facts.leadership)) {
    add(old_world_text(facts));
  }
  if (note.empty() && needs_endpoint_note(facts) && waits_for == RendezvousStatus::For::nodes) {
    note = lonely_note(facts);
    if (may_run_elsewhere(facts)) {
      note += "; if the job runs on other nodes, they call this one when they miss a node";
    }
  }
  return note;
}

/// Rows for few nodes. For more, names that the agents fold into ranges.
void add_nodes(const WaitingFacts& facts, RendezvousStatus& table) {
  const bool few = facts.nodes.size() <= kWaitingRowsMax;
  std::vector<std::string> names;
  for (const auto& [id, node] : facts.nodes.all()) {
    const int workers = node.witness ? 0 : node.local_world_size;
    table.workers_here += workers;
    if (few) {
      table.here.push_back({node.host_name, node.address, workers, node.node_rank,
                            node.hosts_coordinator, facts.now - node.joined_at});
    } else {
      names.push_back(node.host_name);
    }
  }
  DDP_CHECK(few == names.empty() || table.here.empty(), "a node has a row, or a folded name");
  table.names_here = fold_names(std::move(names));
}

/// "n2, n4-n7 (SLURM_STEP_NODELIST)", where a scheduler has named the hosts.
std::string missing_hosts_text(const WaitingFacts& facts) {
  const ExpectedHosts& expected = facts.options.expected;
  std::vector<std::string> names = missing_hosts(expected, facts.nodes);
  return names.empty() ? std::string()
                       : fold_names(std::move(names)) + " (" + expected.variable + ")";
}

/// What every table has, also that of a node which waits for its turn. A witness is none of the
/// nodes that --nnodes counts.
RendezvousStatus bare_table(const MembershipOptions& options, std::size_t nodes_here) {
  RendezvousStatus table;
  table.min_nodes = options.min_nodes;
  table.max_nodes = options.max_nodes;
  table.nodes_here = static_cast<int>(nodes_here);
  return table;
}

/// When the next attempt begins, where no node is waited for and no vote.
std::optional<Instant> attempt_begins(const WaitingFacts& facts) {
  if (!facts.start.is_held_back() || facts.job_is_over || !facts.leadership.quorum_follows()) {
    return {};
  }
  Instant begins = facts.start.backs_off_until();
  if (facts.start.waits_for_old_world(facts.now, facts.leadership)) {
    begins = std::max(begins, facts.start.fence().over_at());
  }
  return begins > facts.now ? std::optional(begins) : std::nullopt;
}

/// Ages and remaining times rather than instants: agents show them by their own clocks.
RendezvousStatus waiting_table(const WaitingFacts& facts) {
  DDP_CHECK(facts.options.min_nodes <= facts.options.max_nodes, "1 <= min <= max nodes");
  const Gathering& gathering = facts.start.gathering();
  RendezvousStatus table = bare_table(facts.options, facts.nodes.workers_here());
  table.waited = facts.now - gathering.since();
  Instant ends = gathering.join_deadline();
  if (last_call_starts_job(facts)) {
    table.waits_for = RendezvousStatus::For::last_call;
    ends = *gathering.last_call_ends();
  }
  ends = attempt_begins(facts).value_or(ends);
  if (facts.job_is_over && facts.start.waits_for_followers(facts.now, facts.nodes.size())) {
    ends = std::min(ends, facts.start.expects_until());
  }
  table.left = std::max(ends - facts.now, Instant(0));
  add_nodes(facts, table);
  facts.absent.fill(table, facts.now);
  table.missing_ranks = facts.nodes.missing_ranks(facts.options.min_nodes);
  table.missing_hosts = missing_hosts_text(facts);
  table.note = waiting_note(facts, table.waits_for);
  return table;
}

/// The newest one that was refused: most often the one that people wait for.
std::string refused_text(const WaitingFacts& facts) {
  RendezvousStatus gone;
  facts.absent.fill(gone, facts.now);
  if (gone.refused.empty()) {
    return {};
  }
  const NodeGone& last = gone.refused.front();
  return "; refused: " + (last.host_name.empty() ? "" : last.host_name + " ") +
         (last.address.empty() ? "" : "at " + last.address + ", ") + last.why;
}

}  // namespace

TellWaiting waiting_notice(const WaitingFacts& facts) {
  return {facts.nodes.ids(), std::make_shared<RendezvousStatus>(waiting_table(facts))};
}

TellWaiting turn_notice(NodeId node, const MembershipOptions& options, std::size_t nodes_here,
                        std::string note) {
  RendezvousStatus table = bare_table(options, nodes_here);
  table.waits_for = RendezvousStatus::For::turn;
  table.note = std::move(note);
  return {{node}, std::make_shared<RendezvousStatus>(std::move(table))};
}

TellWaiting spare_notice(NodeId node, const MembershipOptions& options, std::size_t nodes_here,
                         int world_nodes, std::string why) {
  DDP_CHECK(world_nodes >= 1, "a spare stands by for somebody");
  if (why.empty()) {
    why = world_nodes == 1 ? "its only node is here"
                           : fmt::format("all {} nodes are here", world_nodes);
  }
  return turn_notice(node, options, nodes_here,
                     "this node is a spare: the job runs and " + why +
                         "; it takes the place of a node that is lost");
}

/// One sentence that names each possible cause: it is the reason in the summary of every node.
std::string missing_text(const WaitingFacts& facts) {
  const std::size_t here = facts.nodes.workers_here();
  std::string text =
      fmt::format("{}{} of {}{} here ({})", after_text(facts), here, facts.options.min_nodes,
                  here == 1 ? " nodes was" : " nodes were", names_text(facts.nodes));
  // Given ranks name the missing nodes exactly; else nobody knows who they would have been.
  std::string ranks;
  for (const int rank : facts.nodes.missing_ranks(facts.options.min_nodes)) {
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (!ranks.empty()) {
    text += "; missing: node rank " + ranks;
  }
  if (const std::string hosts = missing_hosts_text(facts); !hosts.empty()) {
    text += "; missing: " + hosts;
  }
  if (!facts.absent.last_lost().empty()) {
    text += "; the last node lost was " + facts.absent.last_lost();
  }
  text += refused_text(facts);
  if (needs_endpoint_note(facts)) {
    const std::string calls = calls_text(facts);
    text += (calls.empty() ? "" : "; " + calls) + "; " + facts.options.endpoint_note;
  }
  if (may_run_elsewhere(facts)) {
    text += "; if the job ran on other nodes, they missed none, or it has ended";
  }
  return text;
}

/// Who keeps the job's state, for people: a consensus service is listed as a witness, and alone.
std::string deciders_text(const JobNodes& nodes) {
  for (const auto& [id, node] : nodes.all()) {
    if (node.witness) {
      return node.host_name;
    }
  }
  return "a quorum of the nodes";
}

/// Enough nodes for a world came, so their number would mislead: who decides is what is missing.
std::string quorum_missing_text(const WaitingFacts& facts) {
  return after_text(facts) + facts.leadership.quorum_text();
}

/// Voters store their state in memory. With all agents gone, a new job begins without them.
std::string no_quorum_text(const WaitingFacts& facts) {
  if (facts.leadership.quorum_follows()) {  // a service that answers, and keeps nothing
    return fmt::format("after {} no world could begin: {} has not kept the state of the job",
                       elapsed_text(facts.now - facts.start.gathering().since()),
                       deciders_text(facts.nodes));
  }
  return quorum_missing_text(facts) +
         "; start the job again with the same command on every node: it resumes from its last "
         "snapshot";
}

}  // namespace ddprun
