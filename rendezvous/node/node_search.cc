// The part of Node that searches for the coordinator, and follows or becomes the one that it finds.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/node/node.h"
#include "rendezvous/node/peer_addresses.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

/// Between two tries at a coordinator that is not to be followed.
constexpr milliseconds kSearchPause{500};

}  // namespace

void Node::on(NodeStarted input) {
  node_.voter = input.voter;
  node_.addresses = std::move(input.addresses);
  node_.port = input.port;
  wait_.begin(now_);
  if (options_.by_service) {
    search();
  } else {
    search_at(options_.endpoints, options_.is_host, options_.join_timeout, true);
  }
}

/// The hello carries the promise and the past as they are now. A coordinator that accepts this node
/// by an older promise could count a vote that another candidate has (HelloAccepted compares it).
void Node::search_at(std::vector<Endpoint> places, std::optional<bool> is_host,
                     milliseconds timeout, bool by_endpoint) {
  DDP_CHECK(!places.empty(), "a search has a place to begin at");
  known_.fill(node_);
  search_again_at_.reset();
  if (is_host != false) {
    actions_.emplace_back(LeaveFirstEndpoint{});  // this node may listen there as a coordinator
  }
  actions_.emplace_back(SearchLeader{std::move(places), is_host, timeout, by_endpoint});
}

/// At the place that a leader named, or at the endpoints, or by a consensus service. On the host of
/// the first endpoint a node without a vote begins there after a while, as a new agent would: the
/// survivors may need one to be enough.
void Node::search() {
  state_ = State::searching;
  if (called_) {
    std::vector<Endpoint> places;
    for (const std::string& address : addresses_to_try(called_->addresses, node_.addresses)) {
      places.push_back({address, called_->port});
    }
    if (!places.empty()) {
      const milliseconds timeout = options_.heartbeat_timeout;
      search_at(std::move(places), false,
                options_.by_service ? std::min(timeout, wait_.left(now_)) : timeout, false);
      return;
    }
    called_.reset();
  }
  if (!options_.by_service) {
    const bool may_begin = options_.failover && known_.is_spare();
    anew_.is_tried = may_begin && now_ >= anew_.not_before;
    DDP_CHECK(!anew_.is_tried || !known_.stored(), "a voter stands for election instead");
    search_at(options_.endpoints, anew_.is_tried ? options_.is_host : false, wait_.left(now_),
              true);
    if (may_begin && !anew_.is_tried) {
      search_again_at_ = anew_.not_before;
    }
    return;
  }
  // Up to the join timeout, however many leaders come and go.
  known_.fill(node_);
  search_again_at_ = wait_.ends_at();
  actions_.emplace_back(AskService{
      loss_.saw_close ? std::optional(DeadLeader{known_.term(), known_.leader()}) : std::nullopt});
}

/// A failed search at the place that a leader named is no end: that leader is gone, others may
/// come. A node that has no world does what it did before it was called: the others of the job may
/// be searching for this one.
void Node::on(const SearchFailed& input) {
  if (std::exchange(anew_.is_tried, false) && !called_ && !input.rejected &&
      now_ < wait_.ends_at()) {
    anew_.not_before = now_ + 2 * options_.heartbeat_timeout;
    search();
    return;
  }
  if (!called_ || input.rejected) {
    give_up(lost_why_ ? Error{lost_why_->what + "; no other was found: " + input.why.what,
                              input.why.where, input.why.todo}
                      : input.why);
    return;
  }
  if (options_.by_service) {
    if (auto line = unreached_.failed(now_, input.why)) {
      actions_.emplace_back(LogLine{true, std::move(*line)});
    }
  }
  called_.reset();
  if (!known_.past() && begun_) {
    settle();
    lead({std::nullopt, false, *begun_});
  } else if (number(known_.term()) == 0 && !options_.by_service) {
    state_ = State::joining;
    search_at(options_.endpoints, options_.is_host, wait_.left(now_), true);
  } else {
    search();
  }
}

/// Nobody else listens at the first endpoint, and no coordinator answered elsewhere: the job begins
/// here, in term 1 and without a vote. Nodes that remember a later term raise it
/// (Leadership::joined).
void Node::on(const EndpointBound& input) {
  node_.port = input.port;
  begun_ = input.instance;
  settle();
  lead({std::nullopt, true, *begun_});
}

void Node::on(const HelloAccepted& input) {
  DDP_CHECK(input.asked_at <= now_, "an answer comes after its question");
  // After half a timeout that coordinator may lead no more, and the lease, which counts from the
  // hello, would begin half over.
  if (now_ - input.asked_at > options_.heartbeat_timeout / 2) {
    state_ = State::searching;
    search_again_at_ = now_ + kSearchPause;
    actions_.emplace_back(StopSearch{});
    return;
  }
  if (known_.voter().promise() != node_.promise) {
    search();  // it has voted since its hello, so that coordinator does not know what binds it
    return;
  }
  if (options_.failover && input.at_endpoint && !called_) {
    actions_.emplace_back(LeaveFirstEndpoint{});  // it is the coordinator's
  } else if (options_.failover) {
    actions_.emplace_back(ListenAtFirstEndpoint{});
  }
  actions_.emplace_back(LogLine{false, fmt::format("follows the coordinator at {}, term {}",
                                                   input.leader, number(input.accepted.term))});
  state_ = State::following;
  known_.follows(input.accepted);
  wait_.met(now_);
  leader_ = input.leader;
  settle();
  actions_.emplace_back(FollowLeader{});
}

/// There is a coordinator, so the search and the election end. A late vote must not make this node
/// lead beside it. What a voter stores stays until a world of a later configuration comes.
void Node::settle() {
  election_.reset();
  called_.reset();
  lost_why_.reset();
  unreached_ = {};
  search_again_at_.reset();
  actions_.emplace_back(StopAsking{});
  actions_.emplace_back(StopSearch{});
}

}  // namespace ddprun
