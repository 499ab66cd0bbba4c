// SearchStory: one LeaderSearch, told what happens, and what it wants done; for its tests.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/node/leader_search.h"

namespace ddprun::story {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

using State = LeaderSearch::State;

inline const Endpoint kFirst{"n1", 29400};
inline const Endpoint kSecond{"n2", 29400};
inline const search::Resolved kOwn{{{"10.0.0.1", true}}, false};
inline const search::Resolved kOther{{{"10.0.0.2", false}}, false};
inline const search::Disconnected kRefused{connect_trouble(true, {})};
inline const search::Disconnected kClosed{was_closed()};
inline const search::Accepted kAccepted{{Term{3}, VoterId{9}, 1}};
inline const search::Rejected kRejected{{"another program", "look"}};
inline const search::Unbelieved kUnbelieved{"who listens there answers in plain text"};
inline const search::Stranger kSsh{"an SSH server listens there", true};
inline const search::Stranger kUnknown{"something listens there", false};
inline const search::Redirected kKnowsNobody{{}, {}};

/// One search, and what it wants done.
class Story {
 public:
  explicit Story(std::vector<Endpoint> endpoints, std::optional<bool> is_host = {},
                 std::chrono::milliseconds timeout = 60s, NodeDescription node = {})
      : search_(SearchRequest{std::move(endpoints), std::move(node), is_host, timeout}, now) {
    wait();
  }

  Story& step(search::Input input) {
    actions = search_.step(now, std::move(input));
    return *this;
  }
  /// Until its deadline.
  Story& wait() {
    now = std::max(now, search_.next_deadline().value());
    return step(search::TimePassed{});
  }
  /// It is at this place.
  Story& greet(search::Resolved where) {
    step(std::move(where));
    return step(search::Connected{});
  }

  template <class Kind>
  const Kind* find() const {
    for (const search::Action& one : actions) {
      if (const auto* found = std::get_if<Kind>(&one)) {
        return found;
      }
    }
    return nullptr;
  }
  [[nodiscard]] bool resolves(const std::string& host) const {
    return find<search::Resolve>() != nullptr && find<search::Resolve>()->host == host;
  }
  [[nodiscard]] bool connects(const std::string& address, std::uint16_t port = 29400) const {
    const auto* order = find<search::Connect>();
    return order != nullptr && order->address == address && order->port == port;
  }
  [[nodiscard]] std::string failure() const {
    return find<SearchFailed>() != nullptr ? find<SearchFailed>()->why.sentence() : "";
  }
  [[nodiscard]] std::chrono::nanoseconds left() const { return *search_.next_deadline() - now; }
  [[nodiscard]] State state() const { return search_.state(); }
  [[nodiscard]] const LeaderSearch& decides() const { return search_; }

  Instant now = 100s;
  std::vector<search::Action> actions;

 private:
  LeaderSearch search_;
};

}  // namespace ddprun::story
