#include "rendezvous/node/node.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/node/leader_call.h"
#include "rendezvous/protocol/voter_addresses.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

/// Between two tries at a coordinator that is not to be followed.
constexpr milliseconds kSearchPause{500};

}  // namespace

Node::Node(NodeOptions options) : options_(std::move(options)), node_(options_.node) {
  DDP_CHECK(!options_.endpoints.empty(), "a job has an endpoint");
}

std::vector<NodeAction> Node::step(Instant now, NodeInput input) {
  DDP_CHECK(now >= now_, "time never goes back");
  now_ = now;
  if (state_ != State::over) {
    std::visit([this](auto& one) { on(std::move(one)); }, input);
  }
  return std::exchange(actions_, {});
}

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
  if (state_ == State::searching && search_again_at_ && now_ >= *search_again_at_) {
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
  state_ = State::over;
  election_.reset();
  actions_.emplace_back(GiveUp{why});
}

// --- Searching ------------------------------------------------------------------------------

void Node::on(NodeStarted input) {
  node_.voter = input.voter;
  node_.addresses = std::move(input.addresses);
  node_.port = input.port;
  search_since_ = now_;
  search_at(options_.endpoints, options_.is_host, options_.join_timeout, true);
}

void Node::search_at(std::vector<Endpoint> places, std::optional<bool> is_host,
                     milliseconds timeout, bool by_endpoint) {
  node_.promise = voter_.promise();
  memory_.fill(node_);
  search_again_at_.reset();
  actions_.emplace_back(SearchLeader{std::move(places), is_host, timeout, by_endpoint});
}

/// At the place that a leader named, or at the endpoints.
void Node::search() {
  state_ = State::searching;
  if (called_) {
    std::vector<Endpoint> places;
    for (const std::string& address : called_->addresses) {
      places.push_back({address, called_->port});
    }
    if (!places.empty()) {
      search_at(std::move(places), false, options_.heartbeat_timeout, false);
      return;
    }
    called_.reset();
  }
  search_at(options_.endpoints, false, time_left(), true);
}

void Node::search_later() {
  state_ = State::searching;
  search_again_at_ = now_ + kSearchPause;
  actions_.emplace_back(StopSearch{});
}

milliseconds Node::time_left() const {
  const auto sought = std::chrono::duration_cast<milliseconds>(now_ - search_since_);
  return std::max(options_.join_timeout - sought, milliseconds(1));
}

/// The leader that called is gone. A node that has no world does what it did before it was called:
/// it may be the one that the others of the job look for.
void Node::begin_again() {
  if (!memory_.past() && began_here_) {
    settle();
    lead({});
  } else if (number(followed_) == 0) {
    state_ = State::joining;
    search_at(options_.endpoints, options_.is_host, time_left(), true);
  } else {
    search();
  }
}

void Node::on(const SearchFailed& input) {
  if (called_ && !input.rejected) {
    called_.reset();
    begin_again();
    return;
  }
  give_up(lost_why_ ? Error{lost_why_->what + "; no other was found: " + input.why.what,
                            input.why.where, input.why.todo}
                    : input.why);
}

void Node::on(const EndpointBound& input) {
  node_.port = input.port;
  began_here_ = true;
  settle();
  lead({std::nullopt, true});
}

void Node::on(const HelloAccepted& input) {
  // An answer as old as half a lease: that coordinator may be none any more.
  if (now_ - input.asked_at > options_.heartbeat_timeout / 2) {
    search_later();
    return;
  }
  if (voter_.promise() != node_.promise) {
    search();  // it gave its vote since it said what it is bound by: it comes anew
    return;
  }
  if (options_.failover) {
    actions_.emplace_back(ListenAtFirstEndpoint{});
  }
  actions_.emplace_back(LogLine{false, "follows the coordinator at " + input.leader + ", term " +
                                           std::to_string(number(input.accepted.term))});
  state_ = State::following;
  followed_ = input.accepted.term;
  voter_.follow(followed_, input.accepted.coordinator);
  memory_.follows();
  leader_ = input.leader;
  at_endpoint_ = input.at_endpoint && !called_;
  settle();
  actions_.emplace_back(FollowLeader{});
}

/// There is a coordinator: nothing of the search for one goes on. What a standby knows stays true
/// until a world of a later term is handed out.
void Node::settle() {
  election_.reset();
  called_.reset();
  lost_why_.reset();
  search_again_at_.reset();
  actions_.emplace_back(StopAsking{});
  actions_.emplace_back(StopSearch{});
}

// --- Following ------------------------------------------------------------------------------

void Node::on(const ToldByLeader& input) {
  if (state_ == State::following || state_ == State::leading) {
    std::visit([this](const auto& order) { told(order); }, input.order);
  }
}

void Node::told(const message::Accepted& order) {
  followed_ = order.term;
  voter_.follow(order.term, order.coordinator);
}

void Node::told(const message::StandbyState& order) {
  standby_state_ = order;
  story_at_ = now_;
  const Configuration& configuration = order.replicated.configuration;
  memory_.announced(order.replicated.term, order.replicated.attempt, configuration.number,
                    static_cast<int>(configuration.voters.size()), at_endpoint_);
  memory_.told(order.replicated, order.so_far, now_);
  actions_.emplace_back(LogLine{
      false, "this node is standby " + std::to_string(order.place + 1) + " of the coordinator"});
}

void Node::told(const message::Story& order) {
  if (standby_state_) {
    standby_state_->replicated.attempt = order.attempt;
    memory_.heard_of(order.attempt);
    standby_state_->so_far = order.so_far;
    story_at_ = now_;
    memory_.told(standby_state_->replicated, order.so_far, now_);
  }
}

/// From here on no candidate that knows an older configuration is granted a vote.
void Node::told(const message::PrepareConfiguration& order) {
  if (!voter_.prepared(order.configuration, order.term)) {
    return;  // this node gave its word to another coordinator
  }
  followed_ = order.term;
  if (order.voters > 0) {
    memory_.announced(order.term, order.attempt, order.configuration, order.voters, at_endpoint_);
  }
  actions_.emplace_back(AcknowledgePrepare{{order.configuration, order.stamp}});
}

void Node::told(const message::Assigned& order) {
  if (!options_.failover) {
    return;
  }
  followed_ = order.term;
  voter_.assigned(order.configuration, order.world.attempt, order.term);
  memory_.assigned(order.term, order.world.attempt, order.configuration, order.world.group_rank,
                   at_endpoint_);
  if (standby_state_ && standby_state_->replicated.term < order.term) {
    standby_state_.reset();  // others are the standbys now
  }
}

// --- Losing ---------------------------------------------------------------------------------

void Node::fence(const Error& why) {
  state_ = State::fencing;
  lost_why_ = why;
  actions_.emplace_back(FenceWorkers{why});
}

void Node::on(const LeaderLost& input) {
  if (state_ == State::following) {
    contact_ = input.last_contact;
    saw_close_ = input.saw_close;
    lost_clause_ = input.clause;
    fence(input.why);
  }
}

void Node::on(const LeaderDeposed& input) {
  if (state_ != State::leading) {
    return;
  }
  actions_.emplace_back(LogLine{true, "this node is no coordinator any more: " + input.why});
  actions_.emplace_back(StopLeading{input.why});
  node_.hosts_coordinator = false;
  contact_ = now_;
  saw_close_ = false;
  called_ = input.by;
  fence(Error{"this node was the coordinator, but " + input.why, {}, {}});
}

void Node::on(const WorkersGone&) {
  if (state_ != State::fencing) {
    return;
  }
  if (!options_.failover) {
    give_up(*lost_why_);
    return;
  }
  actions_.emplace_back(CloseConnection{});
  state_ = State::searching;
  voter_.lost(contact_, saw_close_);
  memory_.lost(saw_close_ ? now_ : contact_, saw_close_, options_.heartbeat_timeout);
  begin_election();
  actions_.emplace_back(LogLine{true, lost_why_->sentence() + "; searching for the new one" +
                                          (election_ ? ", as a candidate" : "")});
  search_since_ = now_;
  search();
  run_election();
}

// --- What others ask ------------------------------------------------------------------------

message::Message Node::where_it_is() const {
  message::Moved moved{followed_, {}, 0};
  if (state_ == State::leading) {
    moved.addresses = node_.addresses;
    moved.port = node_.port;
  } else if (const auto at = parse_endpoint(leader_, 0); at && state_ == State::following) {
    moved.addresses = {at->host};
    moved.port = at->port;
  }
  return moved;
}

void Node::on(const AskedByPeer& input) {
  if (std::holds_alternative<message::Hello>(input.question)) {
    actions_.emplace_back(AnswerPeer{where_it_is()});
    return;
  }
  const auto* ask = std::get_if<message::AskVote>(&input.question);
  if (ask == nullptr || ask->job_id != node_.job_id || ask->voter != node_.voter) {
    return;
  }
  const Vote vote = voter_.answer(now_, ask->request);
  if (election_ && vote.verdict == VoteVerdict::granted) {
    election_->outvoted(now_, ask->request.term);
  }
  actions_.emplace_back(AnswerPeer{message::VoteAnswer{vote}});
}

/// A call to the endpoint is for an agent without a world: the voters of a world are called
/// themselves. But a voter that was away while the world changed twice is not called any more.
bool Node::is_called(const message::Follow& call) const {
  const bool yields = !memory_.past() || (state_ == State::searching && call.term > followed_);
  return call_is_for(call, node_.job_id, job_options(node_), yields);
}

void Node::on(const CalledByLeader& input) {
  const message::Follow& call = input.call;
  if (!is_called(call)) {
    return;
  }
  if (state_ == State::following && call.term > followed_) {
    actions_.emplace_back(LeaveLeader{});
    called_ = call;
    contact_ = now_;
    saw_close_ = false;
    fence(Error{"a coordinator of a later term took over", {}, {}});
  } else if ((state_ == State::searching || state_ == State::joining) && !called_) {
    actions_.emplace_back(LogLine{
        false,
        "the coordinator of term " + std::to_string(number(call.term)) + " calls this node"});
    called_ = call;
    search();
  } else if (state_ == State::fencing) {
    called_ = call;
  }
}

// --- Election -------------------------------------------------------------------------------

void Node::begin_election() {
  if (standby_state_) {
    election_.emplace(
        node_.voter, standby_state_->replicated, static_cast<std::size_t>(standby_state_->place),
        ElectionTimeouts::of(standby_state_->heartbeat_timeout), voter_.promise().term, now_);
  }
}

void Node::on(const VoteReceived& input) {
  if (state_ == State::searching && election_) {
    election_->on_vote(now_, input.from, input.vote);
    run_election();
  }
}

void Node::on(const VoterGone& input) {
  if (state_ == State::searching && election_) {
    election_->on_gone(now_, input.voter);
    run_election();
  }
}

void Node::run_election() {
  if (state_ != State::searching || !election_) {
    return;
  }
  if (election_->time_passed(now_)) {
    ask_all();
  }
  if (election_->state() == Election::State::leading) {
    take_over();
  }
}

void Node::ask_all() {
  const VoteRequest request = election_->request();
  const VoterAddresses book(standby_state_->voters);
  AskVotes asked{request, {}};
  for (const VoterId one : std::vector(election_->voters())) {
    if (election_->granted_by(one)) {
      continue;
    }
    if (one == node_.voter) {
      election_->on_vote(now_, one, voter_.answer(now_, request));
    } else if (const auto* place = book.find(one)) {
      asked.voters.push_back(*place);
    }
  }
  actions_.emplace_back(std::move(asked));
}

// --- Leading --------------------------------------------------------------------------------

void Node::take_over() {
  const message::StandbyState known = *standby_state_;
  BeginLeading::Takeover takeover{
      known,
      election_->request().term,
      TakeoverState{election_->inheritance(), election_->first_attempt(), known.so_far,
                    static_cast<int>(election_->votes()), known.heartbeat_timeout, now_ - contact_,
                    lost_clause_, now_ - story_at_},
      {}};
  std::copy_if(election_->voters().begin(), election_->voters().end(),
               std::back_inserter(takeover.votes),
               [this](VoterId one) { return election_->granted_by(one); });
  actions_.emplace_back(LogLine{true, "this node is the coordinator from here on: term " +
                                          std::to_string(number(takeover.term)) + ", " +
                                          election_->progress_text()});
  settle();
  lead({std::move(takeover), false});
}

void Node::lead(BeginLeading how) {
  state_ = State::leading;
  followed_ = how.takeover ? how.takeover->term : Term{1};
  at_endpoint_ = false;  // of a coordinator in this agent, nobody at the endpoint knows more
  node_.promise = voter_.promise();
  memory_.fill(node_);
  node_.hosts_coordinator = true;
  actions_.emplace_back(std::move(how));
}

}  // namespace ddprun
