#include "agent/operations/status_json.h"

#include <nlohmann/json.hpp>

#include "rendezvous/base/signal_name.h"
#include "rendezvous/control/event_values.h"
#include "rendezvous/membership/incident.h"

namespace ddprun {
namespace {

using event_values::ms;
using event_values::or_null;
using nlohmann::ordered_json;

// The names of fields are the schema (docs/operations.md). What the event log has, too, is written
// by event_values, so that one name means one thing in both.

/// For what has no unit; event_values::or_null knows times and whole numbers.
template <class Value>
ordered_json value_or_null(const std::optional<Value>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

/// A code and a signal are never mixed up: each has a field, and the other one is null.
void add_exit(ordered_json& fields, const std::optional<ExitStatus>& exit) {
  const bool exited = exit && exit->kind == ExitStatus::Kind::exited;
  fields["exit_code"] = exited ? ordered_json(exit->value) : ordered_json(nullptr);
  fields["signal"] =
      exit && !exited ? ordered_json(signal_name(exit->value)) : ordered_json(nullptr);
}

/// The worker that failed first; null for an incident that began otherwise.
ordered_json cause_of(const Incident& incident) {
  if (incident.records.empty() || incident.records.front().blame != Blame::cause) {
    return nullptr;
  }
  const FailureRecord& record = incident.records.front();
  ordered_json fields = {
      {"node", record.node},
      {"rank", record.rank},
      {"local_rank", record.local_rank},
      {"pid", record.pid},
      {"time", event_values::iso_time(std::chrono::floor<std::chrono::milliseconds>(record.time))}};
  add_exit(fields, record.exit);
  fields["message"] = record.message;
  fields["out_of_memory"] = record.out_of_memory;
  fields["hung"] = record.hung;
  return fields;
}

/// `which` counts from 1 over the whole job.
ordered_json incident_of(const Incident& incident, int which) {
  ordered_json fields = {
      {"incident", which},           {"kind", event_values::name_of(incident.kind)},
      {"reason", incident.reason},   {"at_ms", ms(incident.at)},
      {"cause", cause_of(incident)}, {"attempt", number(incident.attempt)},
      {"next_attempt", nullptr},     {"spent_restart", incident.spent_restart}};
  if (incident.next_attempt) {
    fields["next_attempt"] = number(*incident.next_attempt);
  }
  fields.update(event_values::downtime_of(incident));
  return fields;
}

/// The newest that are kept, in order; the count of all is a field of its own.
ordered_json incidents_of(const JobSummary& told) {
  ordered_json rows = ordered_json::array();
  // Old ones are dropped, and keep their numbers: an incident has one number for good.
  int which = told.incidents_dropped;
  for (const Incident& incident : told.incidents) {
    rows.push_back(incident_of(incident, ++which));
  }
  return rows;
}

/// Null before the first snapshot: a number would claim that there is something to resume from.
ordered_json snapshot_of(const TrainingPoint& saved) {
  if (!saved.snapshot) {
    return nullptr;
  }
  return {{"epoch", or_null(number_in(SnapshotUnit::epoch, saved.snapshot))},
          {"step", or_null(number_in(SnapshotUnit::step, saved.snapshot))},
          {"steps", saved.steps},
          {"training_ms", ms(saved.time)}};
}

/// Ranks are told as the first and the last one, as in the event log.
ordered_json node_of(const NodeSnapshot& node) {
  ordered_json fields = {{"node", node.host},
                         {"number", number(node.id)},
                         {"address", or_null(node.address)},
                         {"state", node.state},
                         {"since_ms", ms(node.here_for)},
                         {"workers", node.workers},
                         {"first_rank", nullptr},
                         {"last_rank", nullptr},
                         {"coordinator", node.hosts_coordinator},
                         {"leaving", node.leaving}};
  if (node.first_rank && node.workers > 0) {  // a node that leaves has none
    fields["first_rank"] = *node.first_rank;
    fields["last_rank"] = *node.first_rank + node.workers - 1;
  }
  return fields;
}

/// Bounded by the table that people are shown (kWaitingRowsMax).
ordered_json gone_of(const std::vector<NodeGone>& gone) {
  ordered_json rows = ordered_json::array();
  for (const NodeGone& node : gone) {
    rows.push_back({{"node", or_null(node.host_name)},
                    {"address", or_null(node.address)},
                    {"why", node.why},
                    {"times", node.times},
                    {"ago_ms", ms(node.ago)}});
  }
  return rows;
}

/// A worker without the runtime tells nothing of its training, and those fields are null then.
ordered_json worker_of(const WorkerSnapshot& worker) {
  ordered_json fields = {{"rank", worker.rank},
                         {"local_rank", worker.local_rank},
                         {"pid", worker.pid},
                         {"running", !worker.exit}};
  add_exit(fields, worker.exit);
  fields["phase"] = or_null(worker.phase);
  fields["steps"] = or_null(worker.steps);
  fields["steps_per_second"] = or_null(worker.steps_per_second);
  fields["epoch"] = or_null(worker.epoch);
  fields["loss"] = or_null(worker.loss);
  fields["collectives"] = worker.collectives;
  fields["cpu_ms"] = ms(worker.cpu);
  fields["resident_bytes"] = worker.resident_bytes;
  fields["stdout"] = or_null(worker.stdout_path);
  fields["stderr"] = or_null(worker.stderr_path);
  return fields;
}

/// Of this node: what an agent knows whatever its coordinator has told.
ordered_json agent_of(const JobSnapshot& snapshot) {
  return {{"node", snapshot.host},
          {"pid", snapshot.agent_pid},
          {"state", snapshot.agent_state},
          {"resident_bytes", snapshot.agent_resident_bytes},
          {"log_dir", or_null(snapshot.log_dir)}};
}

const char* name_of(JobView::Source source) {
  switch (source) {
    case JobView::Source::none:
      return "none";
    case JobView::Source::copy:
      return "copy";
    case JobView::Source::coordinator:
      return "coordinator";
  }
  return "";
}

/// What is known of the whole job; every field is null where nothing is.
void add_job(ordered_json& fields, const JobSnapshot& snapshot) {
  const JobView& job = snapshot.job;
  fields["source"] = name_of(job.source);
  fields["source_age_ms"] =
      job.source == JobView::Source::none ? ordered_json(nullptr) : ms(job.age);
  fields["coordinator"] = or_null(snapshot.coordinator_at);
  fields["state"] = or_null(job.state);
  for (const char* const name : {"attempts", "restarts_used", "restarts_left", "incidents_count",
                                 "incidents", "accounts", "checkpoint", "progress"}) {
    fields[name] = nullptr;
  }
  if (job.told) {
    const JobSummary& told = *job.told;
    fields["attempts"] = told.attempts;
    fields["restarts_used"] = told.restarts_used;
    fields["restarts_left"] = snapshot.max_restarts - told.restarts_used;
    fields["incidents_count"] = told.incidents_dropped + static_cast<int>(told.incidents.size());
    fields["incidents"] = incidents_of(told);
    fields["accounts"] = event_values::accounts_of(told.accounts);
    fields["checkpoint"] = snapshot_of(told.accounts.saved);
    fields["progress"] = {{"epoch", or_null(told.progress.last_epoch)},
                          {"loss", or_null(told.progress.loss)}};
  }
  fields["nodes"] = nullptr;
  fields["refused"] = nullptr;
  fields["lost"] = nullptr;
  if (job.knows_nodes) {
    fields["nodes"] = ordered_json::array();
    for (const NodeSnapshot& node : job.nodes) {
      fields["nodes"].push_back(node_of(node));
    }
    fields["refused"] = gone_of(job.absent.refused);
    fields["lost"] = gone_of(job.absent.lost);
  }
}

}  // namespace

/// In one line, as a line of the event log is: it can be appended to a file as it is.
std::string status_json(const JobSnapshot& snapshot) {
  ordered_json fields = {{"schema", kStatusSchema},
                         {"time", event_values::iso_time(snapshot.time)},
                         {"job_id", snapshot.job_id},
                         {"program", or_null(snapshot.program)},
                         {"healthy", snapshot.unhealthy.empty()},
                         {"why_unhealthy", or_null(snapshot.unhealthy)},
                         {"agent", agent_of(snapshot)},
                         {"min_nodes", snapshot.min_nodes},
                         {"max_nodes", snapshot.max_nodes},
                         {"max_restarts", snapshot.max_restarts},
                         {"attempt", nullptr},
                         {"world_size", nullptr}};
  if (snapshot.attempt) {
    fields["attempt"] = number(*snapshot.attempt);
    fields["world_size"] = snapshot.world_size;
  }
  add_job(fields, snapshot);
  fields["workers"] = ordered_json::array();
  for (const WorkerSnapshot& worker : snapshot.workers) {
    fields["workers"].push_back(worker_of(worker));
  }
  // Messages of workers and names of hosts need not be UTF-8.
  return fields.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun
