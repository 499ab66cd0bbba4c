#include "rendezvous/node/leader.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/node/leader_call.h"
#include "rendezvous/node/peer_addresses.h"
#include "rendezvous/protocol/agent_event.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

/// Between the first two calls: an agent that its supervisor restarts is there after a tenth of a
/// second, or much later.
constexpr std::chrono::milliseconds kFirstPause{500};

template <class Kind>
bool holds(const std::vector<Command>& commands) {
  return std::any_of(commands.begin(), commands.end(),
                     [](const Command& command) { return std::holds_alternative<Kind>(command); });
}

/// The name or the address of an endpoint may be another host's by now. Of a coordinator that was
/// there, on the host before, a leader on this one knows no more than others do.
void forget_other_hosts(NodeDescription& node, const HostIdentity& own) {
  if (node.past && !is_same_host(node.past->host, own)) {
    node.past->at_endpoint = false;
  }
  if (node.copy && !is_same_host(node.copy->host, own)) {
    node.copy->at_endpoint = false;
  }
}

/// An agent lets go when it has ended its workers, or its kernel does when it is dead. Where
/// neither was told the node may follow on. A lease counts from something that was heard from the
/// node, so the silence is a part of it.
std::chrono::nanoseconds lease_left(std::chrono::nanoseconds heartbeat_timeout,
                                    std::chrono::nanoseconds silent_for) {
  return std::max(heartbeat_timeout - silent_for, std::chrono::nanoseconds{});
}

}  // namespace

Leader::Leader(LeaderOptions options, Instant now)
    : options_(std::move(options)),
      membership_(options_.membership, now),
      lease_(options_.heartbeat_timeout, *this),
      addresses_(options_.nodes, now),
      now_(now) {
  if (options_.failover && membership_.leadership().enabled()) {
    lease_.start(now);
  }
  if (options_.membership.inheritance) {
    calls_ = {now, kFirstPause};
  }
}

std::vector<LeaderAction> Leader::step(Instant now, LeaderInput input) {
  now_ = std::max(now_, now);
  std::visit([this](auto& one) { on(std::move(one)); }, input);
  return outbox_.take();
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
    if (const auto* ready = std::get_if<message::StateKept>(&input.message)) {
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
  forget_other_hosts(node, options_.host);
  const Leadership& leadership = membership_.leadership();
  if (leadership.instance_is_settled() && of_another_job(leadership.in_use().instance, node)) {
    session.stage = Session::Stage::leaving;
    outbox_.send_away(id, message::Moved{{}, {}, 0, own_voter(), leadership.in_use().instance});
    return;
  }
  session.stage = Session::Stage::member;
  session.voter = node.voter;
  // Only the socket pair comes from the agent that hosts this coordinator.
  node.hosts_coordinator = session.local;
  if (number(node.voter) != 0) {
    addresses_.add(
        {node.voter, node.host_name, seen_first(node.addresses, session.address), node.port});
  }
  if (node.copy) {
    for (const VoterAddress& other : node.copy->others) {
      addresses_.learn(other, now_);
    }
  }
  const VoterId voter = node.voter;
  voters_know_all_ = false;
  apply(NodeJoined{id, std::move(node), session.address});
  const auto* place = addresses_.find(voter);
  if (auto voters = leadership.voters(); !voters_know_all_ && place != nullptr && !voters.empty()) {
    // It is no reason for another configuration. But a successor has to find it, too.
    outbox_.send(std::move(voters), message::MoreNodes{{*place}});
  }
}

/// What other agents ask and say, on connections of their own. A leader grants no votes.
void Leader::answer_peer(NodeId id, Session& session, const message::Message& question) {
  session.stage = Session::Stage::leaving;
  const auto* follow = std::get_if<message::Follow>(&question);
  const bool begins = !options_.membership.inheritance && !membership_.attempt();
  const bool ours = follow == nullptr || is_for_this(*follow, begins);
  outbox_.send_away(
      id,
      message::Moved{
          ours ? term() : Term{}, {}, 0, own_voter(), membership_.leadership().in_use().instance});
  if (follow != nullptr && ours && options_.failover &&
      outranks(*follow, begins ? membership_.leadership().remembered_term() : term(), begins)) {
    message::Follow by = *follow;
    by.addresses = seen_first(std::move(by.addresses), session.address);
    step_down("a coordinator of a later term took over", std::move(by));
  }
}

/// As long as no node here knows of a job, the one that calls may be the one that is looked for.
bool Leader::is_for_this(const message::Follow& call, bool begins) const {
  const Leadership& leadership = membership_.leadership();
  const JobInstance own =
      leadership.instance_is_settled() ? leadership.in_use().instance : JobInstance{};
  return call_is_for(call, own_voter(), own, options_.membership.job_id) &&
         (!call.to_endpoint || (begins && *call.to_endpoint == job_options(options_.membership)));
}

void Leader::on(const SessionEchoed& input) {
  if (const auto found = sessions_.find(input.node); found != sessions_.end()) {
    found->second.fresh = std::max(found->second.fresh, std::min(input.sent, now_));
  }
}

void Leader::on(const SessionHeard& input) {
  apply(NodeHeard{input.node});
}

void Leader::drop(NodeId id, const std::string& why) {
  outbox_.add(DropSession{id});
  on(SessionClosed{id, why, {}, false, false});
}

/// A death is certain where the peer's kernel closed in order and no word of leaving came before.
/// But an agent that never followed may have said hello, and gone to the one that has its promise.
void Leader::on(const SessionClosed& closed) {
  const auto found = sessions_.find(closed.node);
  if (found == sessions_.end()) {
    return;
  }
  const Session session = std::move(found->second);
  sessions_.erase(found);
  if (session.stage == Session::Stage::member) {
    addresses_.went(session.voter, now_);
    const bool died = closed.by_peer && !session.leaves && session.fresh != kNever;
    const bool ended = closed.by_peer || closed.by_reset || session.leaves;
    apply(NodeLost{closed.node, closed.why, closed.silent_for, died,
                   ended ? std::chrono::nanoseconds{}
                         : lease_left(options_.heartbeat_timeout, closed.silent_for)});
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
  std::sort(all.begin(), all.end());  // the same in every run
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

// --- Its commands, those that change what it knows itself --------------------------------------

void Leader::give(Reject order) {
  if (const auto found = sessions_.find(order.node); found != sessions_.end()) {
    found->second.stage = Session::Stage::leaving;
    addresses_.went(found->second.voter, now_);
    outbox_.send_away(order.node, message::Rejected{std::move(order.why), std::move(order.todo)});
  }
}

/// A successor calls all nodes of the job, so the voters are told where they all are.
void Leader::give(const Replicate& order) {
  forget_absent();
  voters_know_all_ = true;
  outbox_.replicate(order, addresses_.all(), now_);
}

void Leader::give(const Disconnect& order) {
  drop(order.node, "it came back on another connection");
}

void Leader::give(const FinishJob& order) {
  outbox_.send(members(), message::Finish{*order.summary});
  outbox_.add(EndJob{});
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
    outbox_.add(StepDown{why, std::move(by)});
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
  const Leadership& leadership = membership_.leadership();
  const Configuration& configuration = leadership.in_use().configuration;
  std::vector<FollowerContact> followers;
  followers.reserve(configuration.voters.size() + leadership.here().dead().size());
  for (const VoterId voter : configuration.voters) {  // few, in a job of thousands of nodes
    for (const NodeId id : leadership.here().connections_of(voter)) {
      const auto found = sessions_.find(id);
      if (found != sessions_.end() && found->second.stage == Session::Stage::member &&
          leadership.is_free(id)) {
        const Session& one = found->second;
        followers.push_back({one.voter, one.local ? now : one.fresh, one.local});
      }
    }
  }
  for (const VoterId dead : leadership.here().dead()) {
    followers.push_back({dead, now, false});  // it will never follow another
  }
  return quorum_contact(configuration, followers);
}

bool Leader::outdated() const {
  return membership_.leadership().outdated();
}

}  // namespace ddprun
