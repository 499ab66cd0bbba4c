#include "agent/operations/prometheus_text.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/control/event_values.h"

namespace ddprun {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// The format has words of its own for these.
std::string number_text(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "+Inf" : "-Inf";
  }
  return fmt::format("{}", value);
}

/// The lines of the answer. It holds the rules of the format that a list of samples could break:
/// each family is told once, before its samples, and a total is a counter.
class Text {
 public:
  /// Begins a family; its samples follow. One without samples is left out again.
  void family(std::string_view name, std::string_view type, std::string_view help) {
    DDP_CHECK((type == "counter") == name.ends_with("_total"),
              "counters, and no others, are totals");
    name_ = "ddprun_" + std::string(name);
    head_ = fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, help, name_, type);
  }
  void sample(double value, const Labels& labels = {}) {
    DDP_CHECK(!name_.empty(), "a sample belongs to a family");
    text_ += std::exchange(head_, {}) + name_;
    const char* before = "{";
    for (const auto& [name, label] : labels) {
      text_ += fmt::format("{}{}=\"{}\"", std::exchange(before, ","), name, label_text(label));
    }
    text_ += labels.empty() ? " " : "} ";
    text_ += number_text(value) + "\n";
  }
  /// A family of one sample.
  void gauge(std::string_view name, std::string_view help, double value) {
    family(name, "gauge", help);
    sample(value);
  }
  void counter(std::string_view name, std::string_view help, double value) {
    family(name, "counter", help);
    sample(value);
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
  std::string name_;
  std::string head_;  ///< of the family, until its first sample
};

/// Of this agent and its node; always there.
void add_agent(Text& text, const JobSnapshot& snapshot) {
  text.family("info", "gauge", "The job and this agent, by their names; always 1.");
  text.sample(1, {{"job_id", snapshot.job_id},
                  {"program", snapshot.program},
                  {"node", snapshot.host},
                  {"agent_state", snapshot.agent_state}});
  text.gauge("healthy", "1 while the job runs or gathers nodes, 0 otherwise.",
             snapshot.unhealthy.empty() ? 1 : 0);
  text.gauge("coordinator", "1 on the node whose agent is the coordinator.",
             snapshot.job.source == JobView::Source::coordinator ? 1 : 0);
  text.gauge("agent_resident_memory_bytes", "Memory of this agent, as the kernel counts it.",
             static_cast<double>(snapshot.agent_resident_bytes));
  if (snapshot.attempt) {
    text.gauge("attempt", "Number of the newest attempt of this node.", number(*snapshot.attempt));
    text.gauge("world_size_workers", "Workers of that attempt on all nodes.", snapshot.world_size);
  }
}

/// The coordinator's alone. A follower that told of nodes would tell of nodes that were.
void add_nodes(Text& text, const JobSnapshot& snapshot) {
  if (!snapshot.job.knows_nodes) {
    return;
  }
  text.family("job_state", "gauge", "1 for the state that the job is in, 0 for the others.");
  for (const char* const state : {"gathering", "running", "stopping", "ending", "over"}) {
    text.sample(snapshot.job.state == state ? 1 : 0, {{"state", state}});
  }
  // A sample for every state, also an empty one: a series that comes and goes alerts nobody.
  std::map<std::string, int> counts = {{"waiting", 0},  {"working", 0}, {"finished", 0},
                                       {"stopping", 0}, {"stopped", 0}, {"witness", 0}};
  for (const NodeSnapshot& node : snapshot.job.nodes) {
    ++counts[node.state];
  }
  text.family("nodes", "gauge", "Connected nodes of the job, by what they do.");
  for (const auto& [state, count] : counts) {
    text.sample(count, {{"state", state}});
  }
  text.gauge("nodes_min", "Nodes that the job needs.", snapshot.min_nodes);
  text.gauge("nodes_max", "Nodes that the job can have.", snapshot.max_nodes);
}

/// The accounts of docs/ledger.md, in seconds: Prometheus' guide asks for base units.
void add_accounts(Text& text, const Accounts& accounts) {
  const TimeTrack& track = accounts.track();
  text.counter("job_seconds_total", "Time since the job began to gather nodes.",
               seconds(accounts.wall));
  text.gauge("startup_seconds", "Time until the first attempt got going.", seconds(track.startup));
  // Gauges: what an incident undoes is taken from the one and added to the other.
  text.gauge("productive_seconds", "Training time that was not done again.",
             seconds(track.productive));
  text.family("downtime_seconds", "gauge", "Downtime, by what the incidents began with.");
  for (std::size_t kind = 0; kind < kIncidentKinds; ++kind) {
    text.sample(seconds(track.downtime[kind]),
                {{"kind", event_values::name_of(static_cast<IncidentKind>(kind))}});
  }
  if (const auto ratio = accounts.ratio()) {
    text.gauge("goodput_ratio", "Effective training time: productive time by time of the job.",
               *ratio);
  }
  // Without steps nothing is known of repeated work, and 0 would claim that there was none.
  if (accounts.steps_told) {
    text.gauge("replayed_seconds", "Training time that was, or will be, done again.",
               seconds(track.replayed));
    text.gauge("training_steps", "Optimizer steps, without those done again.",
               static_cast<double>(accounts.steps));
    text.gauge("replayed_steps", "Optimizer steps that were, or will be, done again.",
               static_cast<double>(accounts.replayed_steps));
  }
  if (accounts.saved.snapshot) {
    const bool by_step = accounts.saved.snapshot->unit == SnapshotUnit::step;
    text.family("checkpoint_number", "gauge", "Number of the newest snapshot: an epoch or a step.");
    text.sample(static_cast<double>(accounts.saved.snapshot->number),
                {{"unit", by_step ? "step" : "epoch"}});
    text.gauge("checkpoint_training_steps", "Optimizer steps that the newest snapshot holds.",
               static_cast<double>(accounts.saved.steps));
  }
}

/// What the whole job has been through, also from a follower's copy: then with its age, so that an
/// alert can leave old ones out.
void add_story(Text& text, const JobSnapshot& snapshot) {
  if (!snapshot.job.told) {
    return;
  }
  const JobSummary& told = *snapshot.job.told;
  text.gauge("knowledge_age_seconds", "How old this agent's copy of what follows is.",
             seconds(snapshot.job.age));
  text.counter("attempts_total", "Attempts so far.", told.attempts);
  text.counter("restarts_total", "Restarts that were spent.", told.restarts_used);
  text.gauge("restarts_left", "Restarts that are left of --max-restarts.",
             snapshot.max_restarts - told.restarts_used);
  text.counter("incidents_total", "Failures and changes of the world.",
               told.incidents_dropped + static_cast<double>(told.incidents.size()));
  if (!told.incidents.empty()) {
    text.gauge("last_incident_downtime_seconds",
               "Downtime of the newest incident, as far as known.",
               seconds(told.incidents.back().parts.sum()));
  }
  add_accounts(text, told.accounts);
}

/// Of one family of the workers.
struct WorkerFamily {
  const char* name;
  const char* type;
  const char* help;
  std::optional<double> (*value)(const WorkerSnapshot& worker);
};

/// Every sample is a double, as in the format.
template <class Value>
std::optional<double> as_double(const std::optional<Value>& value) {
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

/// A table, since samples of one family must stand together, and each family has all workers. What
/// the kernel counts ends with the process: a last value that stays would look like a running one.
constexpr std::array<WorkerFamily, 7> kWorkerFamilies{{
    {"worker_up", "gauge", "1 while the worker runs.",
     [](const WorkerSnapshot& one) { return std::optional(one.exit ? 0.0 : 1.0); }},
    {"worker_steps_total", "counter", "Optimizer steps of the worker in this attempt.",
     [](const WorkerSnapshot& one) { return as_double(one.steps); }},
    {"worker_epoch", "gauge", "The last epoch that the worker has finished.",
     [](const WorkerSnapshot& one) { return as_double(one.epoch); }},
    {"worker_loss", "gauge", "The last loss of the worker.",
     [](const WorkerSnapshot& one) { return one.loss; }},
    {"worker_collectives_total", "counter", "Collectives that the worker has entered.",
     [](const WorkerSnapshot& one) {
       return one.steps ? std::optional(static_cast<double>(one.collectives)) : std::nullopt;
     }},
    {"worker_cpu_seconds_total", "counter",
     "Processor time of the worker and of its children that have ended.",
     [](const WorkerSnapshot& one) {
       return one.exit ? std::nullopt : std::optional(seconds(one.cpu));
     }},
    {"worker_resident_memory_bytes", "gauge", "Memory of the worker, without its children.",
     [](const WorkerSnapshot& one) {
       return one.exit ? std::nullopt : std::optional(static_cast<double>(one.resident_bytes));
     }},
}};

void add_workers(Text& text, const JobSnapshot& snapshot) {
  for (const WorkerFamily& family : kWorkerFamilies) {
    text.family(family.name, family.type, family.help);
    for (const WorkerSnapshot& worker : snapshot.workers) {
      if (const auto value = family.value(worker)) {
        text.sample(*value, {{"rank", std::to_string(worker.rank)},
                             {"local_rank", std::to_string(worker.local_rank)}});
      }
    }
  }
}

}  // namespace

/// Job ids and names of programs come from command lines, with any byte in them.
std::string label_text(std::string_view value) {
  // As a JSON string: it mends UTF-8, and escapes what the format escapes in the same way.
  const std::string quoted =
      nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  DDP_CHECK(quoted.size() >= 2, "a JSON string has its quotes");
  std::string text;
  for (std::size_t i = 1; i + 1 < quoted.size(); ++i) {
    // Other escapes of JSON (\t, \u0001) mean nothing to Prometheus: a blank stands for them.
    if (quoted[i] != '\\') {
      text += quoted[i];
    } else if (const char escaped = quoted[++i];
               escaped == '\\' || escaped == '"' || escaped == 'n') {
      text += {'\\', escaped};
    } else {
      text += ' ';
      i += escaped == 'u' ? 4U : 0U;
    }
  }
  return text;
}

/// Families in an order that people can read, too: the agent, the job, its workers.
std::string prometheus_text(const JobSnapshot& snapshot) {
  Text text;
  add_agent(text, snapshot);
  add_nodes(text, snapshot);
  add_story(text, snapshot);
  add_workers(text, snapshot);
  return text.take();
}

}  // namespace ddprun
