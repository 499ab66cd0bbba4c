#include "rendezvous/control/event_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/control/event_json_lines.h"
#include "rendezvous/control/event_values.h"
#include "rendezvous/membership/event_text.h"
#include "rendezvous/membership/exit_code.h"

namespace ddprun {
namespace {

using event_values::iso_time;
using event_values::ms;
using event_values::name_of;
using event_values::or_null;
using nlohmann::ordered_json;

/// The first of its kind. Of those that are looked for here an event brings one at most.
template <class Kind>
const Kind* find(const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    if (const auto* one = std::get_if<Kind>(&command)) {
      return one;
    }
  }
  return nullptr;
}

}  // namespace

EventJson::EventJson(Job job, const Membership& membership)
    : job_(std::move(job)), saved_(membership.record().ledger().saved().snapshot) {
  // The coordinator before has written its own incidents. Its loss is the first one that this one
  // writes, unless it had decided the end: then nothing is lost.
  const bool lost = job_.succeeds && membership.state() != JobState::ending;
  incidents_told_ = membership.record().incidents_count() - (lost ? 1 : 0);
  DDP_CHECK(incidents_told_ >= 0, "a successor's history has the loss of its predecessor");
  incidents_closed_ = incidents_told_;
}

/// The line that names the schema, and of a successor the incident by which it became one.
std::vector<std::string> EventJson::begin(WallTime wall, Instant now,
                                          const Membership& membership) {
  Lines lines{job_, iso_time(wall), now, membership};
  ordered_json fields = {{"schema", kEventSchema}, {"node", job_.node}};
  if (job_.succeeds) {
    fields["why"] = *job_.succeeds;
    lines.add("coordinator_changed", fields);
  } else {
    fields["min_nodes"] = job_.min_nodes;
    fields["max_nodes"] = job_.max_nodes;
    fields["max_restarts"] = job_.max_restarts;
    lines.add("job_began", fields);
  }
  on_incidents(lines, false);
  return std::move(lines.text);
}

/// The order of the lines is that in which a reader understands them. First what happened and what
/// was ordered, then how far the attempt is and the incident that it ended with. The next attempt
/// and the end come last.
std::vector<std::string> EventJson::observe(WallTime wall, Instant now, const Event& event,
                                            const std::vector<Command>& commands,
                                            const Membership& membership) {
  for_people_.clear();
  if (over_) {
    return {};  // its agents end, which is no news: job_over is the last line of a job
  }
  Lines lines{job_, iso_time(wall), now, membership};
  std::visit([&](const auto& happened) { on(lines, happened, commands); }, event);
  for (const Command& command : commands) {
    on_command(lines, command, event);
  }
  const FinishJob* over = find<FinishJob>(commands);
  on_progress(lines);
  on_incidents(lines, over != nullptr);
  if (const auto* opened = find<OpenStore>(commands)) {
    on_assigned(lines, opened->attempt, commands);
  }
  if (over != nullptr) {
    on_over(lines, *over->summary);
    over_ = true;
  }
  attempt_ = membership.attempt();
  return std::move(lines.text);
}

// --- What went in ---------------------------------------------------------------------------

void EventJson::on(Lines& lines, const NodeJoined& event, const std::vector<Command>& commands) {
  const auto* welcome = find<Welcome>(commands);
  if (welcome == nullptr) {
    return;  // rejected: that line comes with the command
  }
  DDP_CHECK(welcome->node == event.node, "a node that joins is the one that is welcomed");
  const NodeDescription& node = event.description;
  if (node.copy) {
    // The history that a voter brings has snapshots that other coordinators have written.
    saved_ = lines.membership.record().ledger().saved().snapshot;
  }
  // It asks for the rank that another node has, or an older connection of its own agent. It is no
  // node of the job before that one is lost.
  const auto* watched = find<WatchNode>(commands);
  const auto* replaced = find<Disconnect>(commands);
  const bool contends = watched != nullptr || replaced != nullptr;
  if (contends) {
    contenders_[watched != nullptr ? watched->node : replaced->node] = event.node;
  }
  nodes_[event.node] = {node.host_name, event.address, node.witness, contends};
  lines.add("node_joined", attempt_,
            {{"node", node.host_name},
             {"address", or_null(event.address)},
             {"workers", node.witness ? 0 : node.local_world_size},
             {"program", or_null(node.witness ? "" : node.program)},
             {"witness", node.witness}});
  if (lines.membership.state() == JobState::running && find<OpenStore>(commands) == nullptr &&
      !node.witness && !contends) {
    lines.add("node_spare", {{"node", node.host_name}});
  }
}

/// Other programs, scanners and other versions of ddprun: an address is all that is known of them.
void EventJson::on(Lines& lines, const StrangerTurnedAway& event, const std::vector<Command>&) {
  lines.add("node_rejected",
            {{"node", nullptr}, {"address", or_null(event.address)}, {"why", event.why}});
}

/// Of nodes that were let in. A rejected one, and one that was released, has had its line before
/// its connection closed. A node that waited for the rank of a lost one has it from here on.
void EventJson::on(Lines& lines, const NodeLost& event, const std::vector<Command>& commands) {
  if (const auto node = nodes_.extract(event.node)) {
    lines.add("node_lost", attempt_,
              {{"node", node.mapped().host},
               {"address", or_null(node.mapped().address)},
               {"why", event.why},
               {"silent_ms", ms(event.silent_for)}});
  }
  const auto contender = contenders_.extract(event.node);
  const auto waited = contender ? nodes_.find(contender.mapped()) : nodes_.end();
  if (waited == nodes_.end()) {
    return;  // nobody waited for its rank, or that one is gone, too
  }
  waited->second.contends = false;
  if (lines.membership.state() == JobState::running && find<OpenStore>(commands) == nullptr &&
      !waited->second.witness) {
    lines.add("node_spare", {{"node", waited->second.host}});
  }
}

void EventJson::on(Lines& lines, const WorkerFailed& event, const std::vector<Command>&) {
  add_failure(lines, event.node, event.attempt, event.record);
}

/// Some failures come with these records only: a worker may fail while its agent stops them all,
/// and no WorkerFailed was sent.
void EventJson::on(Lines& lines, const WorkersStopped& event, const std::vector<Command>&) {
  for (const FailureRecord& record : event.records) {
    add_failure(lines, event.node, event.attempt, record);
  }
}

void EventJson::on(Lines& lines, const StopRequested& event, const std::vector<Command>&) {
  if (const auto node = nodes_.find(event.node); node != nodes_.end()) {
    lines.add("stop_requested", attempt_,
              {{"node", node->second.host},
               {"signal", or_null(event.signal == 0 ? "" : signal_name(event.signal))},
               {"wish", name_of(event.wish)},
               {"notice", or_null(event.notice)}});
  }
}

/// Each rank once in an attempt. Workers that were stopped are no failures, and what comes late of
/// an attempt before belongs to an incident that is written already.
void EventJson::add_failure(Lines& lines, NodeId id, AttemptNumber attempt,
                            const FailureRecord& record) {
  const auto node = nodes_.find(id);
  if (node == nodes_.end() || attempt_ != attempt || record.after_stop || record.exit.success() ||
      !failed_ranks_.insert(record.rank).second) {
    return;  // none, or told before
  }
  const bool exited = record.exit.kind == ExitStatus::Kind::exited;
  const ordered_json none = nullptr;
  lines.add("worker_failed", attempt,
            {{"node", node->second.host},
             {"rank", record.rank},
             {"local_rank", record.local_rank},
             {"pid", record.pid},
             {"exit_code", exited ? ordered_json(record.exit.value) : none},
             {"signal", exited ? none : ordered_json(signal_name(record.exit.value))},
             {"message", record.message}});
}

// --- What came out --------------------------------------------------------------------------

/// The state machine may refuse a node as it joins, or long after it let the node wait for a rank.
/// So the names come from the event in the one case, and from what was kept of the node in the
/// other.
void EventJson::on_command(Lines& lines, const Command& command, const Event& event) {
  if (const auto* reject = std::get_if<Reject>(&command)) {
    const auto node = nodes_.extract(reject->node);
    const auto* joined = std::get_if<NodeJoined>(&event);
    const bool itself = joined != nullptr && joined->node == reject->node;
    const std::string none;
    lines.add("node_rejected", {{"node", or_null(itself ? joined->description.host_name
                                                 : node ? node.mapped().host
                                                        : none)},
                                {"address", or_null(itself ? joined->address
                                                    : node ? node.mapped().address
                                                           : none)},
                                {"why", reject->why}});
  } else if (const auto* release = std::get_if<Release>(&command)) {
    if (const auto node = nodes_.extract(release->node)) {
      lines.add("node_left", attempt_,
                {{"node", node.mapped().host}, {"address", or_null(node.mapped().address)}});
    }
  } else if (const auto* waiting = std::get_if<TellWaiting>(&command)) {
    const RendezvousStatus& table = *waiting->table;
    if (table.waits_for != RendezvousStatus::For::turn) {
      lines.add("waiting", {{"waits_for", name_of(table.waits_for)},
                            {"nodes_here", table.nodes_here},
                            {"min_nodes", table.min_nodes},
                            {"max_nodes", table.max_nodes},
                            {"waited_ms", ms(table.waited)},
                            {"left_ms", or_null(table.left)},
                            {"note", or_null(table.note)}});
    }
  }
}

void EventJson::on_assigned(Lines& lines, AttemptNumber attempt,
                            const std::vector<Command>& commands) {
  // A new attempt: what was written of the one before counts no more.
  assigned_at_ = lines.now;
  started_told_ = first_step_told_ = false;
  failed_ranks_.clear();
  std::vector<const AssignWorld*> worlds;
  std::set<NodeId> members;
  for (const Command& command : commands) {
    if (const auto* one = std::get_if<AssignWorld>(&command)) {
      worlds.push_back(one);
      members.insert(one->node);
    }
  }
  DDP_CHECK(!worlds.empty(), "a store is opened for a world");
  DDP_CHECK(members.size() == worlds.size(), "a node has one place in a world");
  std::sort(worlds.begin(), worlds.end(), [](const AssignWorld* a, const AssignWorld* b) {
    return a->world.group_rank < b->world.group_rank;
  });
  ordered_json nodes = ordered_json::array();
  for (std::size_t i = 0; i < worlds.size(); ++i) {
    const World& world = worlds[i]->world;
    DDP_CHECK(world.group_rank == static_cast<int>(i), "group ranks are 0 to n-1, each once");
    const int next = i + 1 < worlds.size() ? worlds[i + 1]->world.base_rank : world.world_size;
    DDP_CHECK(world.base_rank < next, "a node of a world has a rank");
    nodes.push_back({{"node", nodes_[worlds[i]->node].host},
                     {"first_rank", world.base_rank},
                     {"last_rank", next - 1}});
    nodes_[worlds[i]->node].contends = false;
  }
  const World& any = worlds.front()->world;
  lines.add(
      "attempt_assigned", attempt,
      {{"world_size", any.world_size}, {"restarts_used", any.restarts_used}, {"nodes", nodes}});
  for (const auto& [id, node] : nodes_) {
    if (!members.contains(id) && !node.witness && !node.contends) {
      lines.add("node_spare", attempt, {{"node", node.host}});
    }
  }
}

/// Milestones of an attempt, each once. Many kinds of events move the ledger that they come from.
/// So they are looked for after each event, not in the handlers of some.
void EventJson::on_progress(Lines& lines) {
  const Ledger& ledger = lines.membership.record().ledger();
  if (assigned_at_ && !started_told_ && lines.membership.all_started()) {
    DDP_CHECK(lines.now >= *assigned_at_, "workers start after their world");
    started_told_ = true;
    lines.add("workers_started", {{"after_ms", ms(lines.now - *assigned_at_)}});
  }
  if (const auto after = ledger.first_step_after(); after && !first_step_told_) {
    first_step_told_ = true;
    lines.add("training_began", {{"after_ms", ms(*after)}});
  }
  // A line for a newer one only: a copy that a voter brings may know of an older snapshot.
  if (ledger.saved().snapshot > saved_) {
    DDP_CHECK(ledger.saved().snapshot, "a snapshot that is newer is one");
    lines.add("snapshot_saved", attempt_,
              {{"epoch", or_null(number_in(SnapshotUnit::epoch, ledger.saved().snapshot))},
               {"step", or_null(number_in(SnapshotUnit::step, ledger.saved().snapshot))},
               {"steps", ledger.saved().steps},
               {"training_ms", ms(ledger.saved().time)}});
  }
  saved_ = ledger.saved().snapshot;
}

// --- The end --------------------------------------------------------------------------------

void EventJson::on_over(Lines& lines, const JobSummary& summary) {
  DDP_CHECK(!over_, "a job ends once");
  add_ledger(lines);
  lines.add("job_over", {{"verdict", to_text(summary.verdict)},
                         {"reason", or_null(summary.reason)},
                         {"exit_code", exit_code_of(summary.verdict)},
                         {"attempts", summary.attempts},
                         {"incidents", lines.membership.record().incidents_count()},
                         {"restarts_used", summary.restarts_used}});
}

/// Written each minute, too, while nothing happens: the last one of a file shows how a running job
/// does.
std::string EventJson::ledger(WallTime wall, Instant now, const Membership& membership) const {
  Lines lines{job_, iso_time(wall), now, membership};
  add_ledger(lines);
  DDP_CHECK(lines.text.size() == 1, "the accounts are one line");
  return std::move(lines.text.front());
}

/// No accounts and no end: the job may continue under another coordinator, which writes them.
std::string EventJson::resigned(WallTime wall, const Membership& membership,
                                const std::string& why) const {
  Lines lines{job_, iso_time(wall), {}, membership};
  lines.add("coordinator_resigned", {{"node", job_.node}, {"why", why}});
  DDP_CHECK(lines.text.size() == 1, "a resignation is one line");
  return std::move(lines.text.front());
}

}  // namespace ddprun
