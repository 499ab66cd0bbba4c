#include "rendezvous/node/leader.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/node_by_text.h"
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

/// For a connection that broke or fell silent, without a close by the peer. The node may follow
/// this coordinator, and run its workers, until its lease ends. The lease counts from a byte that
/// came from the node, so the silence is a part of it.
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
  DDP_CHECK(options_.membership.max_nodes >= 1, "a job has room for a node");
  // On one machine, or with ranks that the user gave, nobody else votes: no lease can be lost.
  if (options_.failover && membership_.leadership().enabled()) {
    lease_.start(now);
  }
  // Only a successor calls, for its nodes search elsewhere. Those of a new job find its endpoint.
  if (options_.membership.inheritance) {
    calls_ = {now, kFirstPause};
  }
}

std::vector<LeaderAction> Leader::step(Instant now, LeaderInput input) {
  DDP_CHECK(!applying_, "a step ends before the next begins");
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

/// The lease comes first: a coordinator that has lost its quorum must decide nothing more, however
/// late its timer fires.
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
  session.address = input.address;
  const bool is_new = sessions_.emplace(input.node, std::move(session)).second;
  DDP_CHECK(is_new, "the number of a session is used once");
  if (!input.local && membership_.nodes() == 1) {
    apply(CallerCame{std::move(input.address)});
  }
}

/// Sorts out what may come at any time on a connection: another agent's question, the hello,
/// reports. A peer that breaks this order is dropped, for nothing else that it sends can be
/// trusted.
void Leader::on(SessionTold input) {
  const auto found = sessions_.find(input.node);
  if (found == sessions_.end()) {
    if (auto late = agent_event(input.node, std::move(input.message))) {
      apply(std::move(*late));  // of a node that is gone: the state machine ignores it
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
    if (session.stage == Session::Stage::greeted) {
      admit(input.node, session);
    }
    if (const auto* wanted = std::get_if<message::DrainNode>(&input.message)) {
      drain(input.node, *wanted);
      return;
    }
    if (const auto* ready = std::get_if<message::StateKept>(&input.message)) {
      on(SessionEchoed{input.node, Instant(ready->stamp)});
      // A member that has let go is told the end when it is back. Its connection is about to close,
      // which voids this plan of the end.
      if (membership_.state() == JobState::ending &&
          std::any_of(sessions_.begin(), sessions_.end(), [](const auto& one) {
            return one.second.leaves && one.second.stage == Session::Stage::member;
          })) {
        return;
      }
    }
    if (auto event = agent_event(input.node, std::move(input.message))) {
      apply(std::move(*event));
    } else {
      drop(input.node, "it broke the protocol: it said what only a coordinator says");
    }
  }
}

/// Questions of other agents, on connections of their own. A leader grants no votes, as no follower
/// does. A node that was cut off must not end a term that works (Ongaro's dissertation, section
/// 4.2.3). It gives way to a leader of a later term only (section 3.3).
void Leader::answer_peer(NodeId id, Session& session, const message::Message& question) {
  DDP_CHECK(session.stage == Session::Stage::ungreeted, "a peer asks in place of a hello");
  session.stage = Session::Stage::leaving;
  const auto* follow = std::get_if<message::Follow>(&question);
  const bool begins = !options_.membership.inheritance && !membership_.attempt();
  const bool ours = follow == nullptr || is_for_this(*follow, begins);
  const Leadership& leadership = membership_.leadership();
  const Term stands_for = leadership.stands_for();
  message::Moved answer{
      ours ? stands_for : Term{}, {}, 0, options_.membership.self, leadership.in_use().instance};
  if (follow == nullptr && !begins) {  // to a candidate: where this leader is
    answer.addresses = options_.addresses;
    answer.port = options_.port;
  }
  outbox_.send_away(id, std::move(answer));
  if (follow != nullptr && ours && options_.failover && outranks(*follow, stands_for, begins)) {
    message::Follow by = *follow;
    by.addresses = seen_first(std::move(by.addresses), session.address);
    step_down("a coordinator of a later term took over", std::move(by));
  }
}

/// As long as no node here remembers a job, the job of the caller may be the one that all look for.
bool Leader::is_for_this(const message::Follow& call, bool begins) const {
  const Leadership& leadership = membership_.leadership();
  const JobInstance own =
      leadership.instance_is_settled() ? leadership.in_use().instance : JobInstance{};
  return call_is_for(call, options_.membership.self, own, options_.membership.job_id) &&
         (!call.to_endpoint || (begins && *call.to_endpoint == job_options(options_.membership)));
}

/// The stamp is this leader's own clock, sent to the node and back, so clocks need not agree. A
/// peer may echo any number: one from the future counts as now, and an old one changes nothing.
void Leader::on(const SessionEchoed& input) {
  if (const auto found = sessions_.find(input.node); found != sessions_.end()) {
    Session& session = found->second;
    session.fresh = std::max(session.fresh, std::min(input.sent, now_));
    DDP_CHECK(session.fresh <= now_, "no follower is fresher than now");
    if (session.stage == Session::Stage::greeted) {
      admit(input.node, session);
    }
  }
}

void Leader::on(const SessionHeard& input) {
  apply(NodeHeard{input.node});
}

/// That node's agent asks for its leave by itself, as after SIGUSR2: its rules hold, and a second
/// order is none, for a second signal would mean now.
void Leader::drain(NodeId asker, const message::DrainNode& wanted) {
  const JobNodes& nodes = membership_.view(now_).nodes;
  const auto found = node_by_text(nodes, wanted.node);
  const auto* const id = std::get_if<NodeId>(&found);
  if (id != nullptr && sessions_.at(*id).voter == kServiceVoter) {
    outbox_.send({asker}, message::DrainAnswer{options_.service +
                                               " is no node of this job: it decides for it"});
    return;
  }
  if (id != nullptr && !nodes.at(*id).leaving) {
    outbox_.send({*id}, message::AskToLeave{});
  }
  outbox_.send({asker}, message::DrainAnswer{id != nullptr ? "" : std::get<std::string>(found)});
}

void Leader::drop(NodeId id, const std::string& why) {
  outbox_.add(DropSession{id});
  on(SessionClosed{id, why, {}, false, false});
}

/// A death is certain if the peer's kernel closed in order and no Leaving came before. The guardian
/// holds the connection until the workers are gone. A dead voter counts for this leader from then
/// on. But an agent that never followed may have sent a hello, and gone to the leader that it voted
/// for.
void Leader::on(const SessionClosed& closed) {
  const auto found = sessions_.find(closed.node);
  if (found == sessions_.end()) {
    return;
  }
  const Session session = std::move(found->second);
  sessions_.erase(found);
  if (session.awaited) {
    apply(NodeGreeted{closed.node, true});
  }
  if (session.stage == Session::Stage::member) {
    addresses_.went(session.voter, now_);
    // Leaving means that the agent lives and may vote; a reset may come from an agent that gave up.
    const bool died = closed.by_peer && !session.leaves && session.fresh != kNever;
    const bool ended = closed.by_peer || closed.by_reset || session.leaves;
    apply(NodeLost{closed.node, closed.why, closed.silent_for, died,
                   ended ? std::chrono::nanoseconds{}
                         : lease_left(options_.heartbeat_timeout, closed.silent_for)});
  }
}

std::vector<NodeId> Leader::members() const {
  std::vector<NodeId> all;
  for (const auto& [id, session] : sessions_) {
    if (session.is_accepted()) {
      all.push_back(id);
    }
  }
  std::sort(all.begin(), all.end());  // the same in every run
  return all;
}

// --- The state machine ----------------------------------------------------------------------

/// An event that a command brings about waits until all commands of the one before are given.
/// Otherwise a node could receive what follows from the later event first.
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
  DDP_CHECK(applying_, "events are applied one after the other");
  const Event seen = observer_ != nullptr ? event : Event(TimePassed{});
  std::vector<Command> commands = membership_.apply(now_, std::move(event));
  if (holds<OpenStore>(commands) && !keeps_lease(lease_.restart(now_))) {
    // Another coordinator may have been elected by now, and its world may run. So this one is never
    // handed out; the store is not opened either, for the attempt has no workers.
    DDP_CHECK(deposed_, "a leader that hands out no world steps down");
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
  // Who is away and lives hears the end sooner so.
  if (membership_.state() == JobState::ending && !std::exchange(ends_, true) && calls_.due) {
    calls_ = {now_, kFirstPause};
  }
  // A witness that joins may make a quorum of others necessary while an attempt runs.
  const Need before = std::exchange(need_, need());
  const bool grows = need_ == Need::now || before == Need::rests;
  if (before != need_ && grows && lease_.due()) {
    lease_.start(now_);
  }
}

// --- Its commands, those that change what it knows itself --------------------------------------

/// The session ends with the answer, so its close is no loss of a node.
void Leader::give(Reject order) {
  if (const auto found = sessions_.find(order.node); found != sessions_.end()) {
    found->second.stage = Session::Stage::leaving;
    addresses_.refused(found->second.voter, now_, membership_.leadership().acquainted());
    outbox_.send_away(order.node, message::Rejected{std::move(order.why), std::move(order.todo)});
  }
}

/// A successor calls all nodes of the job, so the voters are sent the addresses of all. Those that
/// are away for longer than the join timeout have given up.
void Leader::give(const Replicate& order) {
  DDP_CHECK(order.so_far != nullptr, "a state comes with the story of the job");
  forget_absent();
  voters_know_all_ = true;
  outbox_.replicate(order, addresses_.all(), now_);
}

void Leader::give(const Disconnect& order) {
  drop(order.node, "it came back on another connection");
}

void Leader::give(const FinishJob& order) {
  DDP_CHECK(order.summary != nullptr, "a job ends with a summary");
  outbox_.send(members(), message::Finish{*order.summary});
  outbox_.add(EndJob{});
}

// --- Its lease ------------------------------------------------------------------------------

/// False: `lost` is the reason for which this leader leads no more.
bool Leader::keeps_lease(const std::optional<std::string>& lost) {
  if (lost) {
    step_down(
        membership_.leadership().here().is_here(kServiceVoter)
            ? options_.service +
                  " does not let it lead any more, was gone for too long, or this agent stood "
                  "still"
            : *lost,
        std::nullopt);
  }
  return !lost;
}

/// Once, for the first reason: the agent fences its workers for that one.
void Leader::step_down(const std::string& why, std::optional<message::Follow> by) {
  DDP_CHECK(!why.empty(), "a leader steps down for a reason");
  if (!std::exchange(deposed_, true)) {
    outbox_.add(StepDown{why, by ? std::make_shared<message::Follow>(std::move(*by)) : nullptr,
                         std::make_shared<JobSummary>(membership_.view(now_).so_far)});
  }
}

/// Check quorum (Ongaro's dissertation, section 6.2): while workers run, this leader must be
/// followed by a quorum. A leader that gathers harms nobody, for a world is committed before it
/// starts. Of two voters the leader's own is half, which is a quorum. With a service its nodes
/// would wait for a leader that cannot commit, while another one could.
LeaderLease::Quorum::Need Leader::need() const {
  const Leadership& leadership = membership_.leadership();
  const JobState state = membership_.state();
  if (state == JobState::gathering && leadership.here().is_here(kServiceVoter)) {
    return Need::now;
  }
  const bool has_workers = state == JobState::running || state == JobState::stopping;
  if (has_workers && !leadership.needs_nobody()) {
    return Need::now;
  }
  if (leadership.in_use().configuration.voters.size() > 2) {
    return Need::later;
  }
  return has_workers && !outdated() ? Need::rests : Need::none;
}

/// When a quorum certainly followed, by this leader's clock. Only voters count that are bound to no
/// other candidate: the votes of those may have elected a successor already.
Instant Leader::contact(Instant now) const {
  const Leadership& leadership = membership_.leadership();
  static const Configuration service{{}, {kServiceVoter}};
  const bool by_service = leadership.here().is_here(kServiceVoter);
  const Configuration& configuration = by_service ? service : leadership.in_use().configuration;
  std::vector<FollowerContact> followers;
  followers.reserve(2 * configuration.voters.size());
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
  for (const VoterId voter : configuration.voters) {
    if (leadership.here().dead().contains(voter)) {
      followers.push_back({voter, now, false});  // it will never follow another
    }
  }
  return quorum_contact(configuration, followers);
}

bool Leader::outdated() const {
  return membership_.leadership().outdated();
}

}  // namespace ddprun
