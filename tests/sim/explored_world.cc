#include "tests/sim/explored_world.h"

#include <algorithm>
#include <tuple>

#include "tests/sim/agent_shell.h"
#include "tests/sim/message_text.h"
#include "tests/sim/state_digest.h"

namespace ddprun::sim {
namespace {

/// Longer than any path.
constexpr Duration kCutLasts = seconds(1000);

bool breaks_off(const Choice& choice) {
  return choice.kind == Choice::Kind::break_off || choice.kind == Choice::Kind::half_break_off;
}

/// Elastic from one node on, so that a minority would go on if it were let.
SimOptions job_of(const ExploreOptions& explored) {
  SimOptions options = scripted_job();
  options.agents = options.max_nodes = explored.nodes;
  options.min_nodes = 1;
  options.delay_max = Duration(0);
  return options;
}

}  // namespace

ExploredWorld::ExploredWorld(const ExploreOptions& options, bool tracing)
    : options_(options),
      cluster_(job_of(options), {}, tracing),
      faults_left_(options.faults),
      reorderings_left_(options.reorderings) {
  for (int i = 0; i < options.nodes; ++i) {
    cluster_.strike({Duration(0), FaultKind::start, i});
  }
  progress_.decisions = decisions();
  progress_.sent = cluster_.network().digest();
}

// --- What may happen ------------------------------------------------------------------------

/// The simulation's own, heartbeats, and what does nothing: its order does not matter.
bool ExploredWorld::happens_at_once(const Timeline::Pending& action) {
  if (action.tag.kind != ActionTag::Kind::delivery) {
    return action.tag.kind == ActionTag::Kind::other;
  }
  const Network& network = cluster_.network();
  const auto [connection, to] = network.end_of(action.tag);
  const Message* next = network.next_of(connection, to);
  if (next == nullptr ||
      !network.passes(network.machine_of(connection, other(to)), action.tag.machine)) {
    return true;
  }
  const auto* said = std::get_if<Said>(next);
  return network.is_open(connection, to) && said != nullptr && is_heartbeat(**said);
}

bool ExploredWorld::may_fail() {
  return progress_.news && cluster_.now() <= options_.faults_until;
}

/// Everybody works in one attempt, and nothing but heartbeats is to come.
bool ExploredWorld::is_settled() {
  const bool may_change = faults_left_ > 0 && cluster_.now() <= options_.faults_until;
  if (progress_.news || may_change || cluster_.network().is_cut()) {
    return false;
  }
  std::optional<AttemptNumber> attempt;
  for (int i = 0; i < options_.nodes; ++i) {
    AgentShell* agent = cluster_.agent_of(i);
    if (agent == nullptr) {
      continue;
    }
    const Node::State state = agent->node().state();
    const bool has_leader = state == Node::State::following || state == Node::State::leading;
    if (!has_leader || !agent->workers().live()) {
      return false;
    }
    const AttemptNumber here = agent->workers().world()->attempt;
    if (attempt.value_or(here) != here) {
      return false;
    }
    attempt = here;
  }
  return attempt.has_value();
}

std::vector<Choice> ExploredWorld::choices() {
  std::vector<Choice> all;
  Timeline& timeline = cluster_.timeline();
  if (timeline.empty() || cluster_.now() > progress_.last_fault + options_.tail ||
      cluster_.observer().begun_twice() || is_settled()) {
    return all;
  }
  const std::vector<Timeline::Pending> next = timeline.due_next();
  auto forced = std::find_if(next.begin(), next.end(),
                             [this](const auto& one) { return happens_at_once(one); });
  if (cluster_.now() < options_.from) {
    forced = next.begin();
  }
  progress_.forced = forced != next.end();
  if (progress_.forced) {
    all.push_back({Choice::Kind::action, forced->sequence, forced->tag});
    return all;
  }
  for (const Timeline::Pending& one : next) {
    const bool reorders = &one != &next.front();
    if (!reorders || reorderings_left_ != 0) {
      const bool may_be_idle = next.size() > 1 && one.tag.kind == ActionTag::Kind::timer;
      all.push_back({Choice::Kind::action, one.sequence, one.tag, {}, {}, reorders, may_be_idle});
    }
  }
  if (may_fail()) {
    add_faults(all);
  }
  return all;
}

void ExploredWorld::add_faults(std::vector<Choice>& all) {
  const auto add = [&](FaultKind kind, int machine) {
    Choice choice{Choice::Kind::fault};
    choice.fault = {Duration(0), kind, machine};
    choice.fault.lasts = kind == FaultKind::cut ? kCutLasts : Duration(0);
    all.push_back(choice);
  };
  Network& network = cluster_.network();
  if (network.is_cut()) {
    all.push_back({Choice::Kind::heal});
  }
  for (int i = 0; i < options_.nodes; ++i) {
    if (cluster_.agent_of(i) == nullptr) {
      add(FaultKind::start, i);
    }
  }
  if (faults_left_ == 0) {
    return;
  }
  for (int i = 0; i < options_.nodes; ++i) {
    if (AgentShell* agent = cluster_.agent_of(i)) {
      add(FaultKind::death, i);
      add(FaultKind::vanishing, i);
      if (agent->workers().live()) {
        add(FaultKind::worker_failure, i);
      }
    }
    if (!network.is_cut() && (options_.nodes > 2 || i == 0)) {  // of two, one cut is the other's
      add(FaultKind::cut, i);
    }
  }
  for (const ConnectionId connection : network.open_connections()) {
    for (const auto kind : {Choice::Kind::break_off, Choice::Kind::half_break_off}) {
      all.push_back({kind});
      all.back().connection = connection;
    }
  }
  const std::size_t actions = all.size();
  for (std::size_t i = 0; i < actions; ++i) {
    if (all[i].kind == Choice::Kind::action && all[i].tag.kind == ActionTag::Kind::call) {
      all.push_back({Choice::Kind::lost_call, all[i].sequence, all[i].tag});
    }
  }
}

// --- What happens ---------------------------------------------------------------------------

void ExploredWorld::take(const Choice& choice) {
  const std::uint64_t before = progress_.decisions;
  Digest taken;
  taken.add(static_cast<int>(choice.kind)).add(of_action(choice.tag, cluster_.now()));
  taken.add(static_cast<int>(choice.fault.kind)).add(choice.fault.target);
  if (breaks_off(choice)) {
    taken.add(cluster_.network().label(choice.connection));
  }
  carry_out(choice);
  progress_.decisions = decisions();
  progress_.sent = cluster_.network().digest();
  const bool is_action = choice.kind == Choice::Kind::action;
  const bool changed = !is_action || progress_.decisions != before;
  progress_.was_idle = !changed && choice.may_be_idle;
  progress_.news = changed || (progress_.news && (progress_.forced || progress_.was_idle));
  progress_.done += changed ? taken.value() : 0;
  progress_.last_fault = is_action ? progress_.last_fault : cluster_.now();
}

void ExploredWorld::repeat(const std::vector<Choice>& path, const Progress& progress) {
  cluster_.network().expect_digest(std::nullopt);
  for (const Choice& choice : path) {
    carry_out(choice);
  }
  cluster_.network().expect_digest(progress.sent);
  progress_ = progress;
}

void ExploredWorld::carry_out(const Choice& choice) {
  Network& network = cluster_.network();
  switch (choice.kind) {
    case Choice::Kind::action:
      if (choice.reorders && reorderings_left_) {
        --*reorderings_left_;
      }
      cluster_.timeline().step(choice.sequence);
      break;
    case Choice::Kind::lost_call:
      --faults_left_;
      cluster_.timeline().drop(choice.sequence);
      break;
    case Choice::Kind::fault:
      faults_left_ -= choice.fault.kind == FaultKind::start ? 0 : 1;
      cluster_.strike(choice.fault);
      break;
    case Choice::Kind::heal:
      network.heal_all();
      break;
    case Choice::Kind::break_off:
    case Choice::Kind::half_break_off:
      --faults_left_;
      network.break_off(choice.connection, choice.kind == Choice::Kind::half_break_off);
      break;
  }
}

// --- States ---------------------------------------------------------------------------------

std::uint64_t ExploredWorld::of_action(const ActionTag& tag, Duration time) {
  Digest digest;
  digest.add(time.count()).add(static_cast<int>(tag.kind)).add(tag.machine);
  if (tag.kind == ActionTag::Kind::delivery) {
    const auto [connection, to] = cluster_.network().end_of(tag);
    digest.add(cluster_.network().label(connection)).add(static_cast<int>(to));
  } else {
    digest.add(tag.detail);
  }
  return digest.value();
}

/// What everybody has decided, and what was said but heartbeats.
std::uint64_t ExploredWorld::decisions() {
  Digest digest;
  digest.add(cluster_.network().digest());
  for (int i = 0; i < options_.nodes; ++i) {
    AgentShell* agent = cluster_.agent_of(i);
    digest.add(agent != nullptr);
    if (agent != nullptr) {
      add_decisions(digest, *agent);
    }
  }
  return digest.value();
}

std::uint64_t ExploredWorld::digest() {
  std::uint64_t to_come = 0;
  for (const Timeline::Pending& one : cluster_.timeline().pending()) {
    to_come += of_action(one.tag, one.time);
  }
  Digest digest;
  digest.add(progress_.decisions).add(progress_.done).add(to_come).add(cluster_.now().count());
  digest.add(faults_left_).add(reorderings_left_.value_or(-1));
  digest.add(progress_.news).add(progress_.last_fault.count());
  for (int i = 0; i < options_.nodes; ++i) {
    if (const AgentShell* agent = cluster_.agent_of(i)) {
      add_deadlines(digest, *agent);
    }
  }
  return digest.value();
}

// --- For people -----------------------------------------------------------------------------

std::string ExploredWorld::text(const Choice& choice) {
  const Network& network = cluster_.network();
  const auto host = [](auto machine) { return host_name(static_cast<int>(machine)); };
  switch (choice.kind) {
    case Choice::Kind::fault:
      return std::string(to_text(choice.fault.kind)) + " of " + host(choice.fault.target);
    case Choice::Kind::heal:
      return "the cut ends";
    case Choice::Kind::break_off:
    case Choice::Kind::half_break_off:
      return "the connection of " + host(network.machine_of(choice.connection, Side::client)) +
             " to " + host(network.machine_of(choice.connection, Side::server)) + " breaks" +
             (choice.kind == Choice::Kind::break_off ? "" : ", and only the latter is told");
    case Choice::Kind::lost_call:
      return "a call of " + host(choice.tag.detail) + " to " + host(choice.tag.machine) +
             " is lost";
    case Choice::Kind::action:
      break;
  }
  if (choice.tag.kind == ActionTag::Kind::call) {
    return host(choice.tag.machine) + " is called by " + host(choice.tag.detail);
  }
  if (choice.tag.kind != ActionTag::Kind::delivery) {
    return choice.tag.kind == ActionTag::Kind::timer ? host(choice.tag.machine) + ": a timer" : "";
  }
  const auto [connection, to] = network.end_of(choice.tag);
  const Message* next = network.next_of(connection, to);
  const auto* said = next != nullptr ? std::get_if<Said>(next) : nullptr;
  if (next == nullptr || (said != nullptr && is_heartbeat(**said))) {
    return "";
  }
  return host(choice.tag.machine) + " reads of " + host(network.machine_of(connection, other(to))) +
         ": " +
         (said != nullptr                 ? to_text(**said)
          : std::get<Closed>(*next).reset ? "reset"
                                          : "closed");
}

}  // namespace ddprun::sim
