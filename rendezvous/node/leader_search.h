// LeaderSearch: how an agent finds the coordinator of its job, or that it is to be the coordinator
// itself. It carries out one SearchLeader of Node. Pure: time and what happened come in, what to do
// goes out. The shell (control/join) has the resolver, one socket and one timer; the simulation
// runs this very code. Each failure is a sentence of its own that names host, address, port and how
// long was tried.
//
//   pausing ---> resolving --own, first---> binding --bound--> over: this node hosts
//      ^             |                         | taken
//      |             v                         v
//      +--again-- connecting --connected--> greeting --accepted--> over: found
//      ^             | reset                   | no answer
//      |             v                         v
//      +--again-- identifying --connected--> probing
//
// The endpoints are tried by turns, each at all of its addresses. An agent that answers, but is no
// coordinator, names the place of one: a detour, which is tried first. What is named on a detour is
// not followed, or two agents that are wrong about each other would send this one round for ever.
//
// Where the first endpoint's addresses lead nowhere, the host may still be on a network that this
// machine is attached to, by another address than its name means: the shell asks there, and what
// answers is one more address of the endpoint (control/link_words.h).
//
// The agent at the first endpoint hosts it. But the job may have begun long ago and go on under a
// coordinator at another endpoint: so it asks at each of the others first, for a second at most.
// Its port is closed meanwhile, so that others who search go on to the next place at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/node/node.h"
#include "rendezvous/node/search_report.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

struct SearchRequest {
  /// One or more. The first is where a new job begins; at the others a coordinator may be, or
  /// somebody who knows where one is. They are tried by turns.
  std::vector<Endpoint> endpoints;
  NodeDescription node;
  /// rdzv-conf is_host, or node rank 0 of the static backend; none: decide by the addresses of
  /// this machine and by trying to bind, never by comparing names.
  std::optional<bool> is_host;
  /// How long a client keeps trying while nobody answers.
  std::chrono::milliseconds join_timeout{600'000};
  /// Whether the endpoints are a user's words; otherwise an agent's.
  bool by_endpoint = true;
  /// For people: by which addresses this machine may be reached.
  std::string own_addresses = {};
};

namespace search {

// --- What happened --------------------------------------------------------------------------

/// An address in the system's own text form, without a port.
struct Address {
  std::string text;
  bool own = false;  ///< of this machine: loopback and the unspecified one, too
};
/// After Resolve: one or more addresses, each once.
struct Resolved {
  std::vector<Address> addresses;
  bool literal = false;  ///< the host is an address, or localhost: no name service was asked
};
/// After Resolve: there is no address.
struct Unresolved {
  std::string why;  ///< a clause
};
/// After Bind: at this port (of several, where any was asked for).
struct Bound {
  std::uint16_t port = 0;
};
/// After Bind.
struct BindFailed {
  bool in_use = false;
  std::string why;        ///< the system's words
  std::string todo = {};  ///< what to do; empty: take another place
};
/// After Connect.
struct Connected {};
/// After Connect, or later: there is no connection, or no longer. `refused` and `unreachable` say
/// that nothing listens; `closed` and `reset` that something does, but gives no answer.
struct Disconnected {
  Trouble how;
};
/// After SayHello: the answer of a coordinator, of an earlier one that is an agent now, or ...
struct Accepted {
  message::Accepted accepted;
};
struct Rejected {
  message::Rejected rejected;
};
struct Redirected {
  message::Moved moved;
  std::vector<std::string> own;  ///< of its addresses, those of this machine
};
/// ... of a ddprun that speaks another version,
struct OtherVersion {
  std::uint16_t version = 0;
};
/// of who does not show the job's credentials: anybody could say it,
struct Unbelieved {
  std::string what;  ///< a clause
};
/// or of something else, after SayProbe, too.
struct Stranger {
  std::string what;         ///< a clause: "a web server listens there ..."
  bool recognised = false;  ///< which kind of program it is
};
/// After AskLinks, at any time: the host of the first endpoint answered from this address.
struct FoundOnLink {
  std::string address;  ///< numeric
};
/// LeaderSearch::next_deadline() has come.
struct TimePassed {};

using Input =
    std::variant<Resolved, Unresolved, Bound, BindFailed, Connected, Disconnected, Accepted,
                 Rejected, Redirected, OtherVersion, Unbelieved, Stranger, FoundOnLink, TimePassed>;

// --- What to do -----------------------------------------------------------------------------

/// Resolved or Unresolved follows.
struct Resolve {
  std::string host;
  bool ask_names = true;  ///< otherwise a host that is not Resolved::literal is Unresolved
};
/// Bound or BindFailed follows, at once. Nobody is accepted yet.
struct Bind {
  std::string address;  ///< on this alone; empty: on all of this machine
  std::uint16_t port = 0;
};
/// Connected or Disconnected follows. Replaces the connection that was there: nothing that still
/// happens on that one is an input.
struct Connect {
  std::string address;
  std::uint16_t port = 0;
};
/// On the connection.
struct SayHello {
  message::Hello hello;
};
/// On the connection: words of another protocol, for a listener that does not speak ours.
struct SayProbe {
  enum class Words : std::uint8_t { store, line } words = Words::store;
};
struct Disconnect {};
/// Ask for the host of this endpoint on the networks that this machine is attached to. Any number
/// of FoundOnLink may follow. Replaces the question before.
struct AskLinks {
  std::string job_id;
  Endpoint endpoint;
};
/// The end: what was bound is the job's endpoint.
struct HostEndpoint {
  Endpoint bound;    ///< numeric, with the real port
  std::string note;  ///< a sentence: why this node hosts, and why nobody else may come then
};

/// HelloAccepted and SearchFailed are the end, too, and Node's inputs. With HelloAccepted, the
/// connection is the coordinator's.
using Action = std::variant<Resolve, Bind, Connect, SayHello, SayProbe, Disconnect, AskLinks,
                            LogLine, HostEndpoint, HelloAccepted, SearchFailed>;

}  // namespace search

class LeaderSearch {
 public:
  enum class State : std::uint8_t {
    pausing,
    resolving,
    binding,
    connecting,
    greeting,
    identifying,
    probing,
    probing_again,
    over
  };

  /// Begins with TimePassed.
  LeaderSearch(SearchRequest request, Instant now);

  /// Takes what happened and returns what to do about it, in order. `now` never goes back. Total:
  /// what comes too late for the state is ignored.
  std::vector<search::Action> step(Instant now, search::Input input);
  /// When TimePassed is due. None when it is over, and only then: a search never hangs.
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  [[nodiscard]] State state() const { return state_; }
  /// Which of the endpoints it tries.
  [[nodiscard]] std::size_t turn() const { return turn_; }
  /// It could host, and asks at the other endpoints before.
  [[nodiscard]] bool asks_elsewhere() const { return elsewhere_ == Elsewhere::asking; }

 private:
  enum class Elsewhere : std::uint8_t { unasked, asking, asked };
  /// Where a coordinator may be.
  struct Place {
    std::string address;
    std::uint16_t port = 0;
    bool on_detour = false;
    Instant asked_at{};  ///< when the hello went
    [[nodiscard]] std::pair<std::string, std::uint16_t> key() const { return {address, port}; }
  };

  void on(search::Resolved input);
  void on(const search::Unresolved& input);
  void on(const search::Bound& input);
  void on(const search::BindFailed& input);
  void on(const search::Connected& input);
  void on(const search::Disconnected& input);
  void on(const search::Accepted& input);
  void on(const search::Rejected& input);
  void on(const search::Redirected& input);
  void on(const search::OtherVersion& input);
  bool drops_link(const std::string& why);
  void on(const search::Unbelieved& input);
  void on(const search::Stranger& input);
  void on(const search::FoundOnLink& input);
  void on(const search::TimePassed& input);

  void unresolved(const std::string& why);
  void bind();
  void add_loopback();
  void next_elsewhere();
  void knock();
  void connect(State state, std::chrono::milliseconds limit);
  void identify(Trouble found);
  void ask_links(const Trouble& trouble);
  void again(const Trouble& trouble);
  void next_turn();
  void end(search::Action result);
  void fail(Error why, bool rejected = false);
  void wait(State state, std::chrono::milliseconds limit);
  [[nodiscard]] bool is_final(const Trouble& trouble);
  [[nodiscard]] Error verdict() const;
  [[nodiscard]] std::string where() const;
  [[nodiscard]] std::string why_host() const;
  [[nodiscard]] const Endpoint& endpoint() const { return request_.endpoints[turn_]; }
  [[nodiscard]] bool is_identifying() const {
    return state_ == State::identifying || state_ == State::probing ||
           state_ == State::probing_again;
  }

  SearchRequest request_;
  Instant started_;
  Instant now_;
  State state_ = State::pausing;
  Instant deadline_;  ///< of the state
  bool cut_ = false;  ///< by the join timeout, so that it says nothing of the place
  std::vector<search::Action> actions_;
  SearchReport report_;
  std::chrono::milliseconds pause_;
  // Where.
  std::size_t turn_ = 0;       ///< which of the endpoints
  search::Resolved found_;     ///< its addresses
  std::size_t next_ = 0;       ///< of them; 0: all were tried
  std::vector<Place> detour_;  ///< by the word of an agent; the last is tried first
  Place place_;                ///< tried last
  /// The networks of this machine.
  struct Links {
    std::vector<std::string> addresses;  ///< further ones of the first endpoint
    Instant due{};                       ///< not asked before
    std::chrono::milliseconds pause{};
  } links_;
  // As a possible host.
  Elsewhere elsewhere_ = Elsewhere::unasked;
  Instant elsewhere_until_{};  ///< of the endpoint that is being asked
  bool may_host_ = false;      ///< it has tried to bind
  std::optional<Instant> taken_since_;
  // What others are.
  struct Strangers {
    Trouble asked;  ///< of the listener that is being asked what it is
    /// What those are that were asked; of a kind that is not known: no obstacle.
    std::map<std::pair<std::string, std::uint16_t>, Trouble> known;
  } strangers_;
};

}  // namespace ddprun
