#include "rendezvous/node/leader.h"

#include <algorithm>
#include <set>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/node/leader_call.h"
#include "rendezvous/protocol/agent_event.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

/// An agent that its supervisor restarts is there after a tenth of a second, or much later. Two
/// nodes that wait for each other do so for the longest interval at most.
constexpr milliseconds kCallsFirst{500};
constexpr milliseconds kCallsMax{2'000};

template <class Kind>
bool holds(const std::vector<Command>& commands) {
  return std::any_of(commands.begin(), commands.end(),
                     [](const Command& command) { return std::holds_alternative<Kind>(command); });
}

}  // namespace

Leader::Leader(LeaderOptions options, Instant now)
    : options_(std::move(options)),
      membership_(options_.membership, now),
      lease_(options_.heartbeat_timeout, *this),
      addresses_(options_.voters),
      now_(now) {
  if (options_.failover && membership_.leadership().enabled()) {
    lease_.start(now);
  }
  if (options_.membership.inheritance) {
    calls_ = {now, kCallsFirst};
  }
}

std::vector<LeaderAction> Leader::step(Instant now, LeaderInput input) {
  now_ = std::max(now_, now);
  std::visit([this](auto& one) { on(std::move(one)); }, input);
  return std::exchange(actions_, {});
}

std::optional<Instant> Leader::next_deadline() const {
  std::optional<Instant> next = membership_.next_deadline();
  for (const auto& due : {lease_.due(), calls_.due}) {
    next = next && due ? std::min(next, due) : next ? next : due;
  }
  return next;
}

void Leader::on(const LeaderTimePassed&) {
  if (!keeps_lease(lease_.time_passed(now_))) {
    return;
  }
  if (const auto due = membership_.next_deadline(); due && *due <= now_) {
    apply(TimePassed{});
  }
  call_others();
}

// --- Sessions -------------------------------------------------------------------------------

void Leader::on(SessionOpened input) {
  Session session;
  session.local = input.local;
  session.address = std::move(input.address);
  const bool is_new = sessions_.emplace(input.node, std::move(session)).second;
  DDP_CHECK(is_new, "the number of a session is used once");
}

void Leader::on(SessionTold input) {
  const auto found = sessions_.find(input.node);
  if (found == sessions_.end()) {
    if (auto late = agent_event(input.node, std::move(input.message))) {
      apply(std::move(*late));  // of a node that is gone; the state machine stands that
    }
    return;
  }
  Session& session = found->second;
  const bool greeted = session.stage != Session::Stage::ungreeted;
  if (!greeted && (std::holds_alternative<message::Follow>(input.message) ||
                   std::holds_alternative<message::AskVote>(input.message))) {
    answer_peer(input.node, session, input.message);
  } else if (auto* hello = std::get_if<message::Hello>(&input.message);
             (hello != nullptr) == greeted) {
    drop(input.node, "it broke the protocol: a hello comes first, and once");
  } else if (hello != nullptr) {
    join(input.node, session, std::move(hello->node));
  } else if (std::holds_alternative<message::Leaving>(input.message)) {
    session.leaves = true;
  } else {
    if (const auto* ready = std::get_if<message::ConfigurationReady>(&input.message)) {
      on(SessionEchoed{input.node, Instant(ready->stamp)});
    }
    if (auto event = agent_event(input.node, std::move(input.message))) {
      apply(std::move(*event));
    } else {
      drop(input.node, "it broke the protocol: it said what only a coordinator says");
    }
  }
}

void Leader::join(NodeId id, Session& session, NodeDescription node) {
  session.stage = Session::Stage::member;
  session.voter = node.voter;
  // Only the socket pair comes from the agent that hosts this coordinator.
  node.hosts_coordinator = session.local;
  if (number(node.voter) != 0) {
    addresses_.add({node.voter, node.host_name, node.addresses, node.port});
  }
  apply(NodeJoined{id, std::move(node), session.address});
}

/// What other agents ask and say, on connections of their own. A leader grants no votes.
void Leader::answer_peer(NodeId id, Session& session, const message::Message& question) {
  session.stage = Session::Stage::leaving;
  const auto* follow = std::get_if<message::Follow>(&question);
  const bool ours = follow == nullptr || follow->job_id == options_.membership.job_id;
  actions_.emplace_back(SendAndClose{id, message::Moved{ours ? term() : Term{}, {}, 0}});
  const bool begins = !options_.membership.inheritance && !membership_.attempt();
  if (follow != nullptr && options_.failover &&
      call_is_for(*follow, options_.membership.job_id, job_options(), begins) &&
      outranks(*follow, term(), begins)) {
    step_down("a coordinator of a later term took over", *follow);
  }
}

void Leader::on(const SessionEchoed& input) {
  if (const auto found = sessions_.find(input.node); found != sessions_.end()) {
    found->second.fresh = std::max(found->second.fresh, std::min(input.sent, now_));
  }
}

void Leader::on(const SessionHeard& input) {
  apply(NodeHeard{input.node});
}

void Leader::on(const SessionClosed& input) {
  lose(input.node, input.why, input.silent_for, input.by_peer);
}

void Leader::drop(NodeId id, const std::string& why) {
  actions_.emplace_back(DropSession{id});
  lose(id, why, {}, false);
}

/// A death is certain where the peer's kernel closed in order and no word of leaving came before.
/// But an agent that never followed may have said hello, and gone to the one that has its promise.
void Leader::lose(NodeId id, const std::string& why, std::chrono::nanoseconds silent_for,
                  bool by_peer) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) {
    return;
  }
  const Session session = std::move(found->second);
  sessions_.erase(found);
  if (session.stage == Session::Stage::member) {
    const bool died = by_peer && !session.leaves && session.fresh != kNever;
    apply(NodeLost{id, why, silent_for, died});
  }
}

bool Leader::is_member(NodeId node) const {
  const auto found = sessions_.find(node);
  return found != sessions_.end() && found->second.stage == Session::Stage::member;
}

std::vector<NodeId> Leader::members() const {
  std::vector<NodeId> all;
  for (const auto& [id, session] : sessions_) {
    if (session.stage == Session::Stage::member) {
      all.push_back(id);
    }
  }
  return all;
}

// --- The state machine ----------------------------------------------------------------------

/// An event that a command brings about waits until all commands of the one before are given.
void Leader::apply(Event event) {
  events_.push_back(std::move(event));
  if (std::exchange(applying_, true)) {
    return;
  }
  while (!events_.empty()) {
    Event next = std::move(events_.front());
    events_.pop_front();
    apply_now(std::move(next));
  }
  applying_ = false;
}

void Leader::apply_now(Event event) {
  const Event seen = observer_ != nullptr ? event : Event(TimePassed{});
  std::vector<Command> commands = membership_.apply(now_, std::move(event));
  if (holds<OpenStore>(commands) && !keeps_lease(lease_.restart(now_))) {
    // The contact is too old for any worker to begin: this world is never handed out.
    std::erase_if(commands, [](const Command& one) {
      return std::holds_alternative<OpenStore>(one) || std::holds_alternative<AssignWorld>(one);
    });
  }
  if (observer_ != nullptr) {
    observer_->applied(now_, seen, commands, membership_);
  }
  for (Command& command : commands) {
    std::visit([this](auto& order) { give(std::move(order)); }, command);
  }
  // A witness that joins may make a quorum of others necessary while an attempt runs.
  if (const bool needs = needed();
      std::exchange(needs_others_, needs) != needs && needs && lease_.due()) {
    lease_.start(now_);
  }
}

// --- Its commands as messages ---------------------------------------------------------------

void Leader::send(std::vector<NodeId> nodes, message::Message message) {
  actions_.emplace_back(SendMessage{std::move(nodes), std::move(message)});
}

void Leader::give(Welcome order) {
  send({order.node}, message::Accepted{order.term, order.coordinator, now_.count()});
}

void Leader::give(Reject order) {
  if (const auto found = sessions_.find(order.node); found != sessions_.end()) {
    found->second.stage = Session::Stage::leaving;
    actions_.emplace_back(
        SendAndClose{order.node, message::Rejected{std::move(order.why), std::move(order.todo)}});
  }
}

void Leader::give(TellStandbys order) {
  const MembershipOptions& job = options_.membership;
  const auto voters = addresses_.of(order.replicated.configurations());
  for (std::size_t place = 0; place < order.standbys.size(); ++place) {
    send({order.standbys[place]},
         message::StandbyState{static_cast<int>(place), order.replicated, voters, order.so_far,
                               job.min_nodes, job.max_nodes, job.max_restarts, job.require_same_env,
                               options_.heartbeat_timeout});
  }
}

void Leader::give(TellStory order) {
  send(std::move(order.standbys), message::Story{order.attempt, std::move(order.so_far)});
}

/// Its voters are told how many they are: that is what they remember (Past).
void Leader::give(const Prepare& order) {
  std::vector<NodeId> voters;
  std::vector<NodeId> others;
  for (const NodeId id : members()) {
    (ddprun::holds(order.configuration, sessions_.at(id).voter) ? voters : others).push_back(id);
  }
  message::PrepareConfiguration told{order.configuration.number, order.term, 0, order.attempt,
                                     now_.count()};
  send(std::move(others), told);
  told.voters = static_cast<int>(order.configuration.voters.size());
  send(std::move(voters), told);
}

void Leader::give(OpenStore order) {
  actions_.emplace_back(order);
}

void Leader::give(AssignWorld order) {
  actions_.emplace_back(std::move(order));
}

void Leader::give(StopWorkers order) {
  send({order.node},
       message::Stop{order.attempt, std::move(order.reason), order.how, order.signal});
}

void Leader::give(Release order) {
  send({order.node}, message::Finish{std::move(order.so_far)});
}

void Leader::give(TellWaiting order) {
  send(std::move(order.nodes), message::Waiting{std::move(order.table)});
}

void Leader::give(WatchNode order) {
  actions_.emplace_back(WatchSession{order.node});
}

void Leader::give(const Disconnect& order) {
  drop(order.node, "it came back on another connection");
}

void Leader::give(const AskEnvironment& order) {
  send({order.node}, message::AskEnvironment{});
}

void Leader::give(TellEnvironments order) {
  actions_.emplace_back(WarnPeople{std::move(order.text)});
}

void Leader::give(TellIncident order) {
  send(std::move(order.nodes), message::TellIncident{std::move(order.text)});
}

void Leader::give(FinishJob order) {
  send(members(), message::Finish{std::move(order.summary)});
  actions_.emplace_back(EndJob{});
}

// --- Its lease ------------------------------------------------------------------------------

/// False: `lost` says why this leader leads no more.
bool Leader::keeps_lease(const std::optional<std::string>& lost) {
  if (lost) {
    step_down(*lost, std::nullopt);
  }
  return !lost;
}

void Leader::step_down(const std::string& why, std::optional<message::Follow> by) {
  if (!std::exchange(deposed_, true)) {
    actions_.emplace_back(StepDown{why, std::move(by)});
  }
}

bool Leader::needed() const {
  const JobState state = membership_.state();
  return (state == JobState::running || state == JobState::stopping) &&
         !membership_.leadership().needs_nobody();
}

bool Leader::needed_later() const {
  return membership_.leadership().in_use().configuration.voters.size() > 2;
}

Instant Leader::contact(Instant now) const {
  std::vector<FollowerContact> followers;
  for (const auto& [id, one] : sessions_) {
    if (one.stage == Session::Stage::member && membership_.leadership().is_free(id)) {
      followers.push_back({one.voter, one.local ? now : one.fresh, one.local});
    }
  }
  for (const VoterId dead : membership_.leadership().dead()) {
    followers.push_back({dead, now, false});  // it will never follow another
  }
  return quorum_contact(membership_.leadership().in_use().configuration, followers);
}

bool Leader::outdated() const {
  return membership_.leadership().outdated();
}

// --- Calls ----------------------------------------------------------------------------------

message::JobOptions Leader::job_options() const {
  const MembershipOptions& job = options_.membership;
  return {job.min_nodes, job.max_nodes, job.max_restarts, job.require_same_env};
}

message::Follow Leader::call() const {
  return {options_.membership.job_id, term(), options_.addresses, options_.port, std::nullopt};
}

std::vector<VoterId> Leader::absent_voters() const {
  std::set<VoterId> named;
  for (const auto& [id, session] : sessions_) {
    if (session.stage == Session::Stage::member) {
      named.insert(session.voter);
    }
  }
  std::vector<VoterId> absent;
  for (const Configuration* configuration : membership_.leadership().acquainted()) {
    for (const VoterId voter : configuration->voters) {
      if (named.insert(voter).second) {
        absent.push_back(voter);
      }
    }
  }
  return absent;
}

/// Voters that do not follow are called, and the endpoints while any node is missing: an agent that
/// has just started there is no voter, and nobody knows its port.
void Leader::call_others() {
  if (deposed_ || membership_.state() == JobState::over) {
    calls_.due.reset();
  }
  if (!calls_.due || *calls_.due > now_) {
    return;
  }
  calls_.due = now_ + calls_.interval;
  calls_.interval = std::min(2 * calls_.interval, kCallsMax);
  const std::vector<VoterId> absent = absent_voters();
  CallVoters voters{{}, call()};
  for (const VoterId voter : absent) {
    if (const auto* place = addresses_.find(voter)) {
      voters.voters.push_back(*place);
    }
  }
  actions_.emplace_back(std::move(voters));
  const auto wanted = static_cast<std::size_t>(options_.membership.max_nodes);
  if (membership_.workers_here() < wanted || !absent.empty()) {
    CallEndpoints endpoints{call()};
    endpoints.call.to_endpoint = job_options();
    actions_.emplace_back(std::move(endpoints));
  }
}

/// A leader of a later term is not to be led over.
void Leader::on(const CallAnswered& input) {
  if (input.term > term()) {
    message::Follow other = call();
    other.term = input.term;
    other.addresses = input.from.addresses;
    other.port = input.from.port;
    step_down("a coordinator of a later term leads", std::move(other));
  }
}

}  // namespace ddprun
