#include "rendezvous/node/leader_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "rendezvous/base/check.h"
#include "rendezvous/node/leader_call.h"
#include "rendezvous/node/peer_addresses.h"
#include "rendezvous/node/search_timeouts.h"
#include "rendezvous/protocol/frame.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

}  // namespace

LeaderSearch::LeaderSearch(SearchRequest request, Instant now)
    : request_(std::move(request)),
      started_(now),
      now_(now),
      deadline_(now),
      report_(request_.endpoints, request_.join_timeout, now, request_.own_addresses),
      pause_(kPauseFirst),
      turn_(request_.endpoints.size() - 1),
      links_{{}, {}, kLinksPauseFirst} {
  DDP_CHECK(!request_.endpoints.empty(), "a job has an endpoint");
}

std::vector<search::Action> LeaderSearch::step(Instant now, search::Input input) {
  DDP_CHECK(now >= now_, "time never goes back");
  DDP_CHECK(actions_.empty(), "each action is handed out once");
  now_ = now;
  if (state_ != State::over) {
    std::visit([this](auto& one) { on(std::move(one)); }, input);
  }
  return std::exchange(actions_, {});
}

std::optional<Instant> LeaderSearch::next_deadline() const {
  return state_ == State::over ? std::nullopt : std::optional(deadline_);
}

/// Gives the state its deadline. A try that the join timeout cuts short proves nothing about its
/// place, so the verdict is what the tries before have shown. A node that has tried to bind is not
/// cut short before kTakenPatience, for which its port may be taken.
void LeaderSearch::wait(State state, milliseconds limit) {
  DDP_CHECK(state_ != State::over, "a search that is over waits for nothing");
  state_ = state;
  const Instant end =
      started_ + std::max(request_.join_timeout, may_host_ ? kTakenPatience : kPauseFirst);
  const Instant due = asks_elsewhere() ? elsewhere_until_ : now_ + limit;
  cut_ = state != State::binding && !asks_elsewhere() && end < due;
  deadline_ = cut_ ? end : due;
}

/// Every state has a deadline and a way on, so that no name service, kernel or peer that keeps
/// silent can hang the search.
void LeaderSearch::on(const search::TimePassed& /*input*/) {
  if (now_ < deadline_) {
    return;
  }
  if (state_ != State::pausing && cut_ && report_.worst().obstacle != Obstacle::none) {
    fail(verdict());
    return;
  }
  switch (state_) {
    case State::pausing:
      next_ == 0 && detour_.empty() ? next_turn() : knock();
      break;
    case State::resolving:
      unresolved("the name service does not answer");
      break;
    case State::binding:
      on(search::BindFailed{false, "the system does not answer"});
      break;
    case State::connecting:
      again({Obstacle::filtered, "no answer (the host is down, or a firewall drops packets)"});
      break;
    case State::greeting:
      identify({Obstacle::mute,
                "something listens there but does not answer: it does not speak "
                "ddprun's protocol, or it is stopped"});
      break;
    case State::probing:
      actions_.emplace_back(search::SayProbe{search::SayProbe::Words::line});
      wait(State::probing_again, kProbeTimeout);
      break;
    case State::identifying:
    case State::probing_again:
      again(strangers_.asked);
      break;
    case State::over:
      break;
  }
}

// --- Where ----------------------------------------------------------------------------------

/// All addresses of an endpoint were tried. Its name is resolved anew, for it may mean another host
/// by now, as that of a pod does.
void LeaderSearch::next_turn() {
  turn_ = (turn_ + 1) % request_.endpoints.size();
  DDP_CHECK(turn_ < request_.endpoints.size(), "a turn is one endpoint's");
  found_ = {};
  next_ = 0;
  detour_.clear();
  place_ = {};
  // Told to host: whatever the name means, peers may come by any interface.
  const bool hosts = request_.is_host == true && turn_ == 0;
  actions_.emplace_back(search::Resolve{endpoint().host, !hosts});
  wait(State::resolving, kResolveTimeout);
}

void LeaderSearch::on(const search::Unresolved& input) {
  if (state_ != State::resolving) {
    return;
  }
  if (request_.is_host == true && turn_ == 0) {
    bind();
  } else if (turn_ == 0 && !links_.addresses.empty()) {
    on(search::Resolved{});
  } else {
    unresolved(input.why);
  }
}

void LeaderSearch::unresolved(const std::string& why) {
  report_.resolved(turn_, {});
  again({Obstacle::unresolved, "the name cannot be resolved (" + why + ")"});
}

/// Decides by addresses whether this machine is the endpoint's, never by names. Two names may mean
/// one host, and one name another host on each machine.
void LeaderSearch::on(search::Resolved input) {
  if (state_ != State::resolving) {
    return;
  }
  const bool at_first = turn_ == 0;
  for (std::size_t i = 0; at_first && i < links_.addresses.size(); ++i) {
    // What has answered before is tried before what the name means.
    input.addresses.insert(input.addresses.begin(), {links_.addresses[i], false});
  }
  if (input.addresses.empty()) {
    on(search::Unresolved{"it has no address"});
    return;
  }
  found_ = std::move(input);
  std::vector<std::string> texts;
  for (const search::Address& one : found_.addresses) {
    texts.push_back(one.text);
  }
  report_.resolved(turn_, texts);
  const auto own = std::find_if(found_.addresses.begin(), found_.addresses.end(),
                                [](const search::Address& one) { return one.own; });
  if (at_first && request_.is_host == true) {
    bind();
  } else if (at_first && !request_.is_host && own != found_.addresses.end()) {
    std::rotate(found_.addresses.begin(), own, own + 1);
    DDP_CHECK(found_.addresses.front().own, "a host is named by an address of its own");
    elsewhere_ == Elsewhere::asked || request_.endpoints.size() == 1 ? bind() : next_elsewhere();
  } else {
    knock();
  }
}

// --- As client ------------------------------------------------------------------------------

/// Tries the next place. What an agent named comes before the endpoint's further addresses: it is
/// where the coordinator is, unless it moved again.
void LeaderSearch::knock() {
  if (!detour_.empty()) {
    place_ = std::move(detour_.back());
    detour_.pop_back();
  } else {
    DDP_CHECK(next_ < found_.addresses.size(), "there is an address to try");
    place_ = {found_.addresses[next_].text, endpoint().port};
    next_ = (next_ + 1) % found_.addresses.size();
  }
  const bool begins = now_ - started_ < kReportFirst;
  connect(State::connecting, begins ? kConnectTimeoutFirst : kConnectTimeout);
}

void LeaderSearch::connect(State state, milliseconds limit) {
  actions_.emplace_back(search::Connect{place_.address, place_.port});
  wait(state, limit);
}

/// A connection proves only that a kernel listens: the program behind it may be stopped, or not
/// ours. The agent speaks first, for a coordinator sends nothing to a stranger.
void LeaderSearch::on(const search::Connected& /*input*/) {
  if (state_ == State::connecting) {
    place_.asked_at = now_;
    message::Hello hello{request_.node};
    hello.node.said_at = now_;
    hello.node.by_endpoint = request_.by_endpoint && !place_.on_detour;
    actions_.emplace_back(search::SayHello{std::move(hello)});
    wait(State::greeting, kAnswerTimeout);
  } else if (state_ == State::identifying) {
    actions_.emplace_back(search::SayProbe{search::SayProbe::Words::store});
    wait(State::probing, kProbeTimeout);
  }
}

/// Refused and unreachable mean that nobody listens there yet, which time may mend. After anything
/// else a listener is there, and people need to be told what it is.
void LeaderSearch::on(const search::Disconnected& input) {
  const bool answers =
      input.how.obstacle != Obstacle::refused && input.how.obstacle != Obstacle::unreachable;
  if (state_ == State::connecting || state_ == State::greeting) {
    answers ? identify(input.how) : again(input.how);
  } else if (is_identifying()) {
    again(strangers_.asked);
  }
}

void LeaderSearch::on(const search::Accepted& input) {
  if (state_ == State::greeting) {
    const Instant asked_at = place_.asked_at;
    DDP_CHECK(asked_at <= now_, "an answer comes after its question");
    const bool at_endpoint = turn_ == 0 && !place_.on_detour;
    end(HelloAccepted{input.accepted, to_text(Endpoint{place_.address, place_.port}), asked_at,
                      at_endpoint});
  }
}

void LeaderSearch::on(const search::Rejected& input) {
  if (state_ != State::greeting) {
    return;
  }
  if (asks_elsewhere()) {  // another job's coordinator: it does not keep ours from beginning here
    next_elsewhere();
    return;
  }
  const std::string why = "the coordinator rejected this node: " + input.rejected.why;
  if (drops_link(why)) {
    return;
  }
  fail(Error{why, where(), input.rejected.todo}, true);
}

/// An agent that is no coordinator: it names the one that it follows, or nobody. Raft's
/// servers redirect a client in the same way (Ongaro's dissertation, section 6.2).
void LeaderSearch::on(const search::Redirected& input) {
  if (state_ != State::greeting) {
    return;
  }
  const message::Moved& moved = input.moved;
  detour_.clear();
  if (number(moved.from) != 0 && moved.from == request_.node.voter) {
    again({Obstacle::own, "no agent but this one listens there"});
    return;
  }
  if (is_of_another_job(moved, request_.node)) {
    again({Obstacle::refused, "another job of this id is there"});
    return;
  }
  const auto is_own = [&](const std::string& one) {
    return std::find(input.own.begin(), input.own.end(), one) != input.own.end();
  };
  for (const std::string& one : addresses_to_try(moved.addresses, request_.node.addresses)) {
    // An agent that names our own endpoint has not noticed that the coordinator here died.
    const bool names_us =
        asks_elsewhere() && moved.port == request_.endpoints.front().port && is_own(one);
    if (!place_.on_detour && !names_us) {
      detour_.insert(detour_.begin(), Place{one, moved.port, true});
    }
  }
  if (detour_.empty()) {
    again({Obstacle::leaderless, "an agent is there that has no coordinator yet"});
  } else {
    knock();
  }
}

void LeaderSearch::on(const search::OtherVersion& input) {
  if (state_ != State::greeting) {
    return;
  }
  if (asks_elsewhere()) {
    next_elsewhere();
    return;
  }
  const std::string versions = versions_clause("the coordinator", input.version, "this agent");
  if (drops_link(versions)) {
    return;
  }
  fail(Error{versions, where(), "install the same ddprun on all nodes"});
}

/// Whoever took the port, or can inject packets, would end agents otherwise. The right one may
/// listen there later.
void LeaderSearch::on(const search::Unbelieved& input) {
  if (state_ == State::greeting) {
    again({Obstacle::unbelieved, input.what});
  }
}

// --- What is it? ----------------------------------------------------------------------------

void LeaderSearch::on(const search::Stranger& input) {
  if (state_ == State::greeting) {
    again({Obstacle::stranger, input.what});
  } else if (is_identifying()) {
    if (input.recognised) {
      strangers_.known[place_.key()] = {Obstacle::stranger, input.what};
      strangers_.asked = strangers_.known[place_.key()];
    }
    again(strangers_.asked);
  }
}

/// Asks a listener that did not answer what it is, in other protocols' words. Once for each place:
/// a program that such words disturb is not to be disturbed again and again.
void LeaderSearch::identify(Trouble found) {
  if (asks_elsewhere()) {
    next_elsewhere();
    return;
  }
  DDP_CHECK(state_ == State::connecting || state_ == State::greeting,
            "a hello comes before a probe");
  const auto [known, is_new] = strangers_.known.try_emplace(place_.key());
  if (is_new) {
    strangers_.asked = std::move(found);
    connect(State::identifying, kProbeTimeout);
  } else {
    again(known->second.obstacle == Obstacle::none ? std::move(found) : known->second);
  }
}

// --- On this machine's networks -------------------------------------------------------------

// --- Trying again ---------------------------------------------------------------------------

/// A try has failed. Pauses double up to a second: thousands of agents may search at once, and the
/// endpoint may be a small machine. A possible host retries soon, as its own port may become free.
/// A place that answers nothing has been waited for already: the next one may be the right one.
void LeaderSearch::again(const Trouble& trouble) {
  if (asks_elsewhere()) {
    next_elsewhere();
    return;
  }
  actions_.emplace_back(search::Disconnect{});
  report_.tried(turn_, place_.address, trouble, now_);
  ask_links(trouble);
  if (is_final(trouble)) {
    fail(verdict());
    return;
  }
  const Instant left = started_ + request_.join_timeout - now_;
  // A short search at a place that somebody named is told by who began it. Of a port of this
  // machine that is taken the verdict tells, within kTakenPatience and not the join timeout.
  const bool is_told =
      !taken_since_ && (request_.by_endpoint || request_.join_timeout > kToldElsewhere);
  if (is_told && left > kLastWords && report_.due(now_)) {
    for (std::string& line : report_.lines(now_)) {
      actions_.emplace_back(LogLine{true, std::move(line)});
    }
  }
  state_ = State::pausing;
  const milliseconds pause = trouble.obstacle == Obstacle::filtered ? kPauseFirst : pause_;
  deadline_ = now_ + std::clamp<Instant>(left, milliseconds(1), pause);
  pause_ = may_host_ ? kPauseFirst : std::min(2 * pause_, kPauseMax);
}

/// On this machine a taken port is another program's, or that of a job that starts or ends, and a
/// few seconds show which. Elsewhere a peer may start at any time, also behind a proxy that accepts
/// and closes. A program that is stopped says nothing: it may be an agent of this job, and its
/// port is free once that is killed. If it continues, it names the coordinator. So an agent of
/// several nodes waits for it as long as for any coordinator.
bool LeaderSearch::is_final(const Trouble& trouble) {
  const bool may_be_stopped = number(request_.node.voter) != 0 &&
                              (trouble.obstacle == Obstacle::mute ||
                               trouble.obstacle == Obstacle::filtered);  // its backlog is full
  if (may_host_ && turn_ == 0 && (may_be_stopped || trouble.obstacle == Obstacle::unbelieved)) {
    taken_since_.reset();
    return now_ - started_ >= request_.join_timeout;
  }
  if (may_host_ && turn_ == 0) {
    taken_since_ = taken_since_.value_or(now_);
    DDP_CHECK(*taken_since_ <= now_, "the port was taken before now");
    return trouble.obstacle == Obstacle::stranger || trouble.obstacle == Obstacle::mute ||
           now_ - *taken_since_ >= kTakenPatience;
  }
  return now_ - started_ >= request_.join_timeout ||
         (request_.endpoints.size() == 1 && report_.worst().obstacle == Obstacle::stranger &&
          report_.worst_for(now_) >= kStrangerPatience);
}

Error LeaderSearch::verdict() const {
  if (may_host_ && turn_ == 0) {
    const auto tried = std::chrono::round<seconds>(now_ - started_).count();
    // Of several addresses, the one that was tried last need not be the one that is taken.
    return Error{fmt::format("port {} is taken by another program ({}, tried for {} s)",
                             endpoint().port, report_.worst_at(turn_).what, tried),
                 where(), "choose another port"};
  }
  return report_.verdict(now_);
}

// --- The end --------------------------------------------------------------------------------

void LeaderSearch::fail(Error why, bool rejected) {
  end(SearchFailed{std::move(why), rejected});
}

void LeaderSearch::end(search::Action result) {
  DDP_CHECK(state_ != State::over, "a search ends once");
  state_ = State::over;
  actions_.push_back(std::move(result));
}

}  // namespace ddprun
