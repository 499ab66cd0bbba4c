#include "rendezvous/node/node.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/node/leader_call.h"
#include "rendezvous/node/peer_addresses.h"
#include "rendezvous/protocol/message_codec.h"
#include "rendezvous/protocol/voter_addresses.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

/// A call to the endpoint is for an agent without a world, because a leader calls its voters by
/// their own addresses. But it does not call a voter that was away while the world changed twice.
/// So that one follows such a call of a later term while it searches. By a service the job is
/// whatever its leader has: where somebody has removed what the service kept, a new agent may have
/// begun the job anew before those that ran it came back.
bool is_called(const message::Follow& call, const NodeDescription& node, const FollowerState& known,
               bool searches, bool by_service) {
  const bool yields = !known.past() || (searches && call.term > known.term());
  const bool any = known.follows_instance(call.instance) || (by_service && searches);
  const JobInstance own = any ? call.instance : known.instance();
  const bool is_of_job = call_is_for(call, node.voter, own, node.job_id);
  return is_of_job && (!call.to_endpoint || (yields && *call.to_endpoint == job_options(node)));
}

/// A configuration comes to its voters when it is planned, and once it is in use. In Raft each
/// server goes by the newest configuration of its log, committed or not (section 4.1): so a voter
/// may lead from the plan on.
std::string standby_text(const message::VoterState& state, VoterId self) {
  const ReplicatedState& replicated = state.replicated;
  if (!holds(replicated.configuration, self)) {
    return {};  // of the configuration before: it only has to acknowledge this one
  }
  const bool in_use = replicated.settled == replicated.configuration.number;
  const std::string voter = fmt::format("voter {} of the job", state.place + 1);
  if (replicated.ends) {
    return "this node is " + voter + ", and stores its end";
  }
  return in_use ? "this node is " + voter
                : "this node is to be " + voter + ", and may take over from here on";
}

/// A node that searches names nobody: each newcomer would try the lost leader once more.
message::Moved where_is_leader_of(const Node& node) {
  message::Moved moved = node.answer_to_call();
  moved.term = node.known().term();
  if (node.state() == Node::State::leading) {
    moved.addresses = node.description().addresses;
    moved.port = node.description().port;
  } else if (const auto at = parse_endpoint(node.leader_address(), 0);
             at && node.state() == Node::State::following) {
    moved.addresses = {at->host};
    moved.port = at->port;
  }
  return moved;
}

}  // namespace

Node::Node(NodeOptions options)
    : options_(std::move(options)),
      node_(options_.node),
      wait_(options_.join_timeout, options_.by_service),
      known_(options_.failover) {
  DDP_CHECK(!options_.endpoints.empty(), "a job has an endpoint");
}

std::vector<NodeAction> Node::step(Instant now, NodeInput input) {
  DDP_CHECK(now >= now_, "time never goes back");
  DDP_CHECK(actions_.empty(), "each action is handed out once");
  now_ = now;
  if (state_ != State::over) {
    std::visit([this](auto& one) { on(std::move(one)); }, input);
  }
  return std::exchange(actions_, {});
}

/// While it follows or leads, others keep the time: the connection has the lease, Leader its own.
std::optional<Instant> Node::next_deadline() const {
  if (state_ != State::searching) {
    return std::nullopt;
  }
  const auto votes = election_ ? election_->next_deadline() : std::nullopt;
  return search_again_at_ && votes ? std::min(search_again_at_, votes)
         : votes                   ? votes
                                   : search_again_at_;
}

void Node::on(const NodeTimePassed&) {
  run_election();
  if (state_ != State::searching || !search_again_at_ || now_ < *search_again_at_) {
    return;
  }
  if (options_.by_service && !called_ && now_ >= wait_.ends_at()) {
    on(SearchFailed{unreached_.verdict(now_, 2 * options_.heartbeat_timeout)});
  } else {
    search();
  }
}

void Node::stop_searching() {
  if (state_ != State::leading && state_ != State::following) {
    state_ = State::over;
  }
  election_.reset();
}

void Node::give_up(const Error& why) {
  DDP_CHECK(state_ != State::over, "a node gives up once");
  state_ = State::over;
  election_.reset();
  actions_.emplace_back(GiveUp{why});
}

// --- Following ------------------------------------------------------------------------------

void Node::on(const ToldByLeader& input) {
  if (state_ == State::following || state_ == State::leading) {
    std::visit([this](const auto& order) { told(order); }, input.order);
  }
}

/// The acknowledgement may commit a world, so it goes out only once the state is stored. In Raft an
/// entry is stored before it counts (Ongaro's dissertation, section 3.8).
void Node::told(const message::VoterState& order) {
  const std::string before =
      known_.stored() ? standby_text(*known_.stored(), node_.voter) : std::string();
  if (!known_.told(order, now_)) {
    return;
  }
  actions_.emplace_back(AcknowledgeState{{order.replicated.configuration.number, order.stamp}});
  std::string text = standby_text(order, node_.voter);
  if (state_ == State::following && !text.empty() && text != before) {
    actions_.emplace_back(LogLine{false, std::move(text)});
  }
}

void Node::told(const message::Waiting& order) {
  if (order.table.waits_for == RendezvousStatus::For::turn) {
    wait_.is_spare();
  }
}

// --- Losing ---------------------------------------------------------------------------------

/// Workers first: until they are gone this node neither votes nor follows another coordinator. A
/// vote means that no worker of the old world runs here, and a successor relies on it.
void Node::fence(const Error& why) {
  DDP_CHECK(state_ == State::following || state_ == State::leading,
            "only a node of a job has workers to fence");
  state_ = State::fencing;
  lost_why_ = why;
  actions_.emplace_back(FenceWorkers{why});
}

void Node::on(const LeaderLost& input) {
  if (state_ == State::following) {
    DDP_CHECK(input.last_contact <= now_, "the last contact lies in the past");
    loss_.contact = input.last_contact;
    loss_.saw_close = input.saw_close;
    loss_.at = loss_.saw_close ? now_ : loss_.contact;
    lost_clause_ = input.clause;
    fence(input.why);
  }
}

/// The coordinator in this agent has lost its quorum, or found a leader of a later term (Ongaro's
/// dissertation, sections 6.2 and 3.3). The node stays in the job and follows the next one.
void Node::on(const LeaderDeposed& input) {
  if (state_ != State::leading) {
    return;
  }
  DDP_CHECK(node_.hosts_coordinator, "a node that leads says so in its hello");
  actions_.emplace_back(LogLine{true, "this node is no coordinator any more: " + input.why});
  actions_.emplace_back(StopLeading{input.why});
  node_.hosts_coordinator = false;
  loss_.contact = loss_.at = now_;
  loss_.saw_close = false;
  lost_clause_ = input.why;  // this node may lead again, and tell why the attempt ended
  called_ = input.by ? std::optional(*input.by) : std::nullopt;
  known_.led_until(now_, input.so_far);
  fence(Error{"this node was the coordinator, but " + input.why, {}, {}});
}

/// No worker of the old world lives here: this node closes the connection, which shows the
/// coordinator the same, and votes from here on. The close comes before the first vote: otherwise
/// the lost coordinator could count this node as a follower, and a candidate count its vote.
void Node::on(const WorkersGone&) {
  if (state_ != State::fencing) {
    return;
  }
  DDP_CHECK(lost_why_, "workers are fenced for a reason");
  if (!options_.failover) {
    lost_why_->todo =
        "no other node can take over a job of --nnodes 1 or of the static backend; start it again";
    give_up(*lost_why_);
    return;
  }
  actions_.emplace_back(CloseConnection{});
  state_ = State::searching;
  known_.lost(now_, loss_.contact, loss_.saw_close, options_.heartbeat_timeout);
  begin_election();
  actions_.emplace_back(LogLine{true, lost_why_->sentence() + "; searching for the new one" +
                                          (election_ ? ", as a candidate" : "")});
  wait_.lost(now_, known_.past() ? std::optional(known_.past()->attempt) : std::nullopt);
  anew_.not_before = now_ + 2 * options_.heartbeat_timeout;
  actions_.emplace_back(ListenAtFirstEndpoint{});
  // The leader that a voter names may be the one that the first hello is on its way to. A hello
  // that is given up for another takes a place in its world, and loses it at once. The candidate
  // asks again, and so is told again.
  named_again_at_ = std::max(named_again_at_, now_ + options_.heartbeat_timeout / 10);
  // First the vote: the hello carries the promise that this node gives itself. With an older one a
  // coordinator that lives would assign a world to a connection that this node then drops.
  run_election();
  if (state_ == State::searching) {
    search();
  }
}

// --- What others ask ------------------------------------------------------------------------

/// Without a term: the caller steps down for a later one, and only a leader may cause that
/// (Leader::answer_peer).
message::Moved Node::answer_to_call() const {
  return {Term{}, {}, 0, node_.voter, known_.instance()};
}

/// A new agent asks where the coordinator is, or a candidate asks for a vote. Votes come from
/// Voter, in every state. A node that follows refuses, so a candidate that was cut off cannot end a
/// term that works (Ongaro's dissertation, section 4.2.3).
void Node::on(const AskedByPeer& input) {
  if (const auto* hello = std::get_if<message::Hello>(&input.question)) {
    message::Moved answer = where_is_leader_of(*this);
    // If the survivors cannot elect one of themselves, they need an agent without a vote at the
    // endpoint. It may be this one. If they do elect a leader, that one calls it.
    const NodeDescription& asks = hello->node;
    const bool may_begin = !asks.copy && (!asks.past || !asks.past->group_rank);
    if (input.from_here && may_begin && answer.addresses.empty()) {
      actions_.emplace_back(LeaveFirstEndpoint{});
    }
    actions_.emplace_back(AnswerPeer{std::move(answer)});
    return;
  }
  const auto* ask = std::get_if<message::AskVote>(&input.question);
  if (ask == nullptr || ask->job_id != node_.job_id) {
    return;
  }
  if (ask->voter != node_.voter) {
    actions_.emplace_back(AnswerPeer{answer_to_call()});  // the voter that was here is gone
    return;
  }
  const Vote vote = known_.voter().answer(now_, ask->request);
  // The own vote went to another candidate, so the votes that this node has won are void.
  if (election_ && vote.verdict == VoteVerdict::granted) {
    election_->outvoted(now_, ask->request.term);
  }
  if (state_ == State::following && vote.verdict == VoteVerdict::follows) {
    actions_.emplace_back(AnswerPeer{where_is_leader_of(*this)});  // a refusal that helps
    return;
  }
  actions_.emplace_back(AnswerPeer{message::VoteAnswer{vote}});
}

/// An elected leader calls the nodes of its job. One that follows an older term fences its workers
/// and comes; one that searches goes there at once, and to one of a later term even where it was
/// called before: the caller of an earlier term may be out of its reach. A call to a node that
/// leads is for its Leader, which steps down (LeaderDeposed).
void Node::on(const CalledByLeader& input) {
  const message::Follow& call = input.call;
  if (!is_called(call, node_, known_, state_ == State::searching, options_.by_service)) {
    return;
  }
  if (state_ == State::following && call.term > known_.term()) {
    actions_.emplace_back(LeaveLeader{});
    called_ = call;
    loss_.contact = now_;
    loss_.saw_close = false;
    fence(Error{"a coordinator of a later term took over", {}, {}});
  } else if ((state_ == State::searching || state_ == State::joining) &&
             (!called_ || call.term > called_->term)) {
    actions_.emplace_back(
        LogLine{false, fmt::format("the coordinator of term {} {}", number(call.term),
                                   options_.by_service ? "is to be followed" : "calls this node")});
    called_ = call;
    search();
  } else if (state_ == State::fencing) {
    called_ = call;
  }
}

// --- Leading --------------------------------------------------------------------------------

void Node::lead(BeginLeading how) {
  DDP_CHECK(!election_, "an election ends before its winner leads");
  DDP_CHECK(state_ == State::joining || state_ == State::searching,
            "a node that begins to lead follows nobody");
  state_ = State::leading;
  how.waited = options_.by_service ? now_ - wait_.since() : Instant{};
  wait_.met(now_);
  known_.leads(how.takeover ? how.takeover->term : how.term, node_.voter);
  known_.fill(node_);
  node_.hosts_coordinator = true;
  actions_.emplace_back(std::move(how));
}

}  // namespace ddprun
