// The part of LeaderSearch that may host the endpoint: when it binds, what it does about a taken
// port, and how messages name the place.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/socket.h"
#include "rendezvous/node/leader_search.h"
#include "rendezvous/node/search_timeouts.h"

namespace ddprun {
namespace {

bool is_unspecified(const std::string& address) {
  return address == "0.0.0.0" || address == "::";
}

}  // namespace

/// Before it hosts, this node asks at the other endpoints: the job may have moved there long ago.
/// One endpoint has a second for all of its addresses, because the job that begins here waits for
/// it.
void LeaderSearch::next_elsewhere() {
  DDP_CHECK(request_.endpoints.size() > 1, "there is another endpoint to ask at");
  actions_.emplace_back(search::Disconnect{});
  const bool asks = std::exchange(elsewhere_, Elsewhere::asking) == Elsewhere::asking;
  if (asks && now_ < elsewhere_until_ && (next_ != 0 || !detour_.empty())) {
    knock();
    return;
  }
  elsewhere_until_ = now_ + kElsewhereTimeout;
  if (turn_ + 1 == request_.endpoints.size()) {
    elsewhere_ = Elsewhere::asked;
  }
  next_turn();
}

void LeaderSearch::bind() {
  DDP_CHECK(turn_ == 0 && request_.is_host != false, "the job begins at the first endpoint");
  may_host_ = true;
  DDP_CHECK(!found_.literal || !found_.addresses.empty(), "a literal is an address itself");
  // A name that means loopback on its own machine (127.0.1.1 in Debian's /etc/hosts) means
  // something else on the others. Only a user that writes a loopback address wants just loopback.
  const bool loopback = found_.literal && net::is_loopback(found_.addresses.front().text);
  actions_.emplace_back(
      search::Bind{loopback ? found_.addresses.front().text : std::string(), endpoint().port});
  wait(State::binding, kAnswerTimeout);
}

void LeaderSearch::on(const search::Bound& input) {
  if (state_ == State::binding) {
    const bool known = !found_.addresses.empty();
    end(search::HostEndpoint{{known ? found_.addresses.front().text : "::", input.port},
                             why_host()});
  }
}

void LeaderSearch::on(const search::BindFailed& input) {
  if (state_ != State::binding) {
    return;
  }
  if (!input.in_use) {
    fail(Error{
        "cannot listen here: " + input.why, where(),
        input.todo.empty() ? "choose another port, or another host for the endpoint" : input.todo});
  } else if (request_.is_host == true) {
    again({Obstacle::refused, "the port is in use"});
  } else {
    add_loopback();
    knock();  // the program that has the port may be the coordinator
  }
}

/// Another agent of this machine may have taken the port just on loopback, because its user named
/// the endpoint differently (localhost, say).
void LeaderSearch::add_loopback() {
  auto& addresses = found_.addresses;
  std::erase_if(addresses, [](const auto& one) { return is_unspecified(one.text); });
  for (const char* loopback : {"127.0.0.1", "::1"}) {
    if (std::none_of(addresses.begin(), addresses.end(),
                     [&](const auto& one) { return one.text == loopback; })) {
      addresses.push_back({loopback, true});
    }
  }
  DDP_CHECK(addresses.size() >= 2, "both loopback addresses are tried");
}

std::string LeaderSearch::why_host() const {
  if (request_.is_host == true) {
    return host_note(endpoint().host, found_.literal, {});
  }
  DDP_CHECK(!found_.addresses.empty(), "a host that was not told to host has found its address");
  const std::string& own = found_.addresses.front().text;
  return host_note(endpoint().host, found_.literal, own,
                   net::is_loopback(own) || is_unspecified(own));
}

/// "n1 (10.0.0.1) port 29400"
std::string LeaderSearch::where() const {
  const bool tried = !place_.address.empty() && !is_unspecified(place_.address);
  const std::string numeric = tried                      ? place_.address
                              : found_.addresses.empty() ? std::string()
                                                         : found_.addresses.front().text;
  const std::string& host = endpoint().host;
  return fmt::format("{}{} port {}", host,
                     numeric.empty() || numeric == host ? "" : " (" + numeric + ")",
                     endpoint().port);
}

}  // namespace ddprun
