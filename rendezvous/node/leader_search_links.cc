// LeaderSearch on the networks of this machine: the host of the first endpoint may be on one of
// them where the endpoint's own address leads nowhere (control/link_discovery.h asks).
#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/base/check.h"
#include "rendezvous/node/leader_search.h"
#include "rendezvous/node/search_timeouts.h"

namespace ddprun {

/// Where nothing answers at the first endpoint, its host may still be near, by an address that the
/// endpoint does not name. A refusal is no reason: what refuses is a host that was reached.
void LeaderSearch::ask_links(const Trouble& trouble) {
  const bool leads_nowhere = trouble.obstacle == Obstacle::filtered ||
                             trouble.obstacle == Obstacle::unreachable ||
                             trouble.obstacle == Obstacle::unresolved;
  if (!leads_nowhere || turn_ != 0 || may_host_ || !request_.by_endpoint || now_ < links_.due) {
    return;
  }
  DDP_CHECK(endpoint().port != 0, "agents meet at a port that all of them know");
  actions_.emplace_back(search::AskLinks{request_.node.job_id, endpoint()});
  links_.due = now_ + links_.pause;
  links_.pause = std::min(2 * links_.pause, kLinksPauseMax);
}

/// Whoever hears a question on the network can have the host's answer sent from an own address. So
/// a refusal from there ends no search: the address is forgotten, and others are tried.
bool LeaderSearch::drops_link(const std::string& why) {
  const auto found = std::find(links_.addresses.begin(), links_.addresses.end(), place_.address);
  if (turn_ != 0 || place_.on_detour || found == links_.addresses.end()) {
    return false;
  }
  links_.addresses.erase(found);
  again({Obstacle::refused, why});
  return true;
}

/// One more address of the first endpoint, tried at once unless something better is under way.
void LeaderSearch::on(const search::FoundOnLink& input) {
  const auto known = [&](const search::Address& one) { return one.text == input.address; };
  if (std::any_of(found_.addresses.begin(), found_.addresses.end(), known) ||
      std::find(links_.addresses.begin(), links_.addresses.end(), input.address) !=
          links_.addresses.end()) {
    return;
  }
  if (links_.addresses.size() == SearchReport::kAddressesMax) {
    links_.addresses.erase(links_.addresses.begin());  // it was tried, and led to nobody
  }
  links_.addresses.push_back(input.address);
  const Endpoint& first = request_.endpoints.front();
  DDP_CHECK(first.port != 0, "the host was asked at its port");
  actions_.emplace_back(
      LogLine{true, fmt::format("{}: {}; its host answers at {}, on a network of this node: "
                                "trying there",
                                report_.where(), report_.worst_at(0).what, input.address)});
  if (!asks_elsewhere() && (state_ == State::pausing || state_ == State::connecting)) {
    turn_ = 0;
    found_ = {{{input.address, false}}, false};
    next_ = 0;
    detour_.clear();
    knock();
  }
}

}  // namespace ddprun
