#include "rendezvous/node/search_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/network_interfaces.h"

namespace ddprun {
namespace {

using std::chrono::nanoseconds;

/// "n1 (10.0.0.1) port 29400"
std::string place_text(const Endpoint& endpoint, const std::string& address) {
  const bool told = address.empty() || address == endpoint.host;
  return fmt::format("{}{} port {}", endpoint.host, told ? "" : " (" + address + ")",
                     endpoint.port);
}

std::string whole_seconds(nanoseconds duration) {
  return std::to_string(std::chrono::round<std::chrono::seconds>(duration).count()) + " s";
}

}  // namespace

/// Refused has words of its own, since the advice for it differs. Other errors keep the system's
/// words, as a clause.
Trouble connect_trouble(bool refused, std::string message) {
  if (refused) {
    return {Obstacle::refused, "connection refused"};
  }
  DDP_CHECK(!message.empty(), "the system has words for each error");
  std::transform(message.begin(), message.begin() + 1, message.begin(),
                 [](char c) { return static_cast<char>(std::tolower(c)); });
  return {Obstacle::unreachable, std::move(message)};
}

Trouble was_closed() {
  return {Obstacle::closed, "something listens there but closes the connection without an answer"};
}

Trouble was_reset() {
  return {Obstacle::reset, "something accepts the connection and resets it without an answer"};
}

/// Two nodes that both host wait for each other without an end, and neither can notice it. So each
/// one logs why it hosts, and the person who sees both logs finds the cause.
std::string host_note(const std::string& host, bool literal, const std::string& own_address,
                      bool own_is_local) {
  if (own_address.empty()) {
    return "this node hosts the endpoint because it was told to (node rank 0, or is_host); where "
           "another node was told so too, both wait alone";
  }
  if (literal && own_is_local) {
    return "the endpoint " + host + " means each machine itself: only agents on this one come " +
           "here; give an address of this machine that the others reach";
  }
  if (own_is_local) {
    return "the name " + host + " means a loopback address here (" + own_address +
           "); where it does on another node too, both wait alone";
  }
  return "this node hosts the endpoint, for " + own_address +
         " is its own address; where another node says so too, both wait alone";
}

std::string search_advice(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::unresolved:
      return "check the host name, or give the endpoint by its numeric address";
    case Obstacle::own:
      return "a coordinator that is elected calls this agent; if none can be, start the agents "
             "that are missing";
    case Obstacle::refused:
      return "start the agent on that host, or check the endpoint's host and port";
    case Obstacle::leaderless:
      return "this node joins as soon as that agent has a coordinator";
    case Obstacle::filtered:
    case Obstacle::unreachable:
      return "check that the host is up, and the network and firewalls between the nodes";
    case Obstacle::mute:
    case Obstacle::closed:
    case Obstacle::reset:
    case Obstacle::stranger:
      return "choose a port that no other program uses";
    case Obstacle::unbelieved:
      return "give every agent --tls-ca, --tls-cert and --tls-key, or none of them; or see what "
             "listens there";
    case Obstacle::none:
      break;
  }
  return {};
}

SearchReport::SearchReport(std::vector<Endpoint> endpoints, Time join_timeout, Time started,
                           std::string own_addresses)
    : endpoints_(std::move(endpoints)),
      join_timeout_(join_timeout),
      started_(started),
      own_addresses_(std::move(own_addresses)) {
  DDP_CHECK(!endpoints_.empty(), "there is somewhere to search");
  pace_.begin(started);
}

void SearchReport::resolved(std::size_t place, const std::vector<std::string>& addresses) {
  DDP_CHECK(place < endpoints_.size(), "a name is an endpoint's");
  std::erase_if(rows_, [&](const Row& row) {
    return row.place == place &&
           std::find(addresses.begin(), addresses.end(), row.address) == addresses.end();
  });
}

void SearchReport::tried(std::size_t place, const std::string& address, Trouble trouble, Time now) {
  DDP_CHECK(place < endpoints_.size(), "what is tried is an endpoint's");
  const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& one) {
    return one.place == place && one.address == address;
  });
  if (row == rows_.end()) {
    if (rows_.size() < kAddressesMax) {
      // The first finding has been true since the start, as far as this node can see.
      const Time since = rows_.empty() ? started_ : now;
      rows_.push_back({place, address, std::move(trouble), since, now, now});
      pace_.changed(now);
    }
    DDP_CHECK(!rows_.empty() && rows_.size() <= kAddressesMax, "as many rows as people read");
    return;
  }
  // Hosts and firewalls limit how often they say that they refuse (RFC 1812, 4.3.2.8): the silence
  // of the next try says less.
  if (trouble.obstacle == Obstacle::filtered && row->trouble.obstacle == Obstacle::unreachable) {
    return;
  }
  if (row->trouble.obstacle != trouble.obstacle) {
    row->since = now;
    row->first_seen = now;
    pace_.changed(now);
  }
  row->last_seen = now;
  row->trouble = std::move(trouble);
}

std::string SearchReport::where() const {
  const std::size_t others = endpoints_.size() - 1;
  const bool one = rows_.size() == 1 && others == 0;
  std::string text = place_text(endpoints_.front(), one ? rows_.front().address : std::string());
  if (others > 0) {
    text += fmt::format(" and {}{}", others, others == 1 ? " other endpoint" : " other endpoints");
  }
  return text;
}

std::string SearchReport::label(const Row& row) const {
  return endpoints_.size() == 1 ? row.address : place_text(endpoints_[row.place], row.address);
}

/// The address whose try came nearest to a coordinator (Obstacle is in that order): its obstacle is
/// the one to remove first.
const SearchReport::Row* SearchReport::furthest(std::optional<std::size_t> place) const {
  const Row* found = nullptr;
  for (const Row& row : rows_) {
    const bool counts = !place || row.place == *place;
    if (counts && (found == nullptr || found->trouble.obstacle < row.trouble.obstacle)) {
      found = &row;
    }
  }
  return found;
}

Trouble SearchReport::worst() const {
  const Row* row = furthest();
  return row == nullptr ? Trouble{} : row->trouble;
}

Trouble SearchReport::worst_at(std::size_t place) const {
  const Row* row = furthest(place);
  return row == nullptr ? Trouble{} : row->trouble;
}

SearchReport::Time SearchReport::worst_for(Time now) const {
  const Row* row = furthest();
  if (row == nullptr) {
    return Time(0);
  }
  DDP_CHECK(row->last_seen <= now, "a try has ended before it is judged");
  return row->last_seen - row->first_seen;
}

std::vector<std::string> SearchReport::lines(Time now) const {
  DDP_CHECK(now >= started_, "a search is reported after it began");
  const std::string times = "tried for " + whole_seconds(now - started_) + ", for up to " +
                            whole_seconds(std::max(join_timeout_ - (now - started_), Time(0))) +
                            " more";
  const std::string head = "waiting for the coordinator at " + where() + ": ";
  if (rows_.size() == 1 && endpoints_.size() == 1) {
    const Row& row = rows_.front();
    const bool always = row.since == started_;
    return {head + row.trouble.what +
            (always ? "" : " (for " + whole_seconds(now - row.since) + ")") + ", " + times + "; " +
            advice(row.trouble.obstacle)};
  }
  std::vector<std::string> lines{fmt::format(
      "{}{}{}{}", head, rows_.size(), rows_.size() == 1 ? " address, " : " addresses, ", times)};
  std::size_t width = 0;
  for (const Row& row : rows_) {
    width = std::max(width, label(row).size());
  }
  for (const Row& row : rows_) {
    const std::string name = label(row);
    DDP_CHECK(name.size() <= width, "a column is as wide as its longest text");
    lines.push_back("  " + name + std::string(width - name.size() + 2, ' ') + row.trouble.what +
                    ", for " + whole_seconds(now - row.since));
  }
  if (const std::string todo = advice(worst().obstacle); !todo.empty()) {
    lines.push_back("  " + todo);
  }
  return lines;
}

Error SearchReport::verdict(Time now) const {
  std::string what;
  for (const Row& row : rows_) {
    what += (what.empty() ? "" : ", ") +
            (rows_.size() == 1 && endpoints_.size() == 1 ? "" : label(row) + ": ") +
            row.trouble.what;
  }
  const Obstacle obstacle = worst().obstacle;
  return Error{
      "cannot reach the coordinator: " + what + ", tried for " + whole_seconds(now - started_),
      where(),
      obstacle == Obstacle::leaderless
          ? "start the agents on all nodes of the job: the one there lacks nodes to elect with"
          : advice(obstacle)};
}

/// Where the network may be at fault, people need to see which networks this node is on: the
/// endpoint may name an address of another one.
std::string SearchReport::advice(Obstacle obstacle) const {
  const bool may_be_network = obstacle == Obstacle::filtered || obstacle == Obstacle::unreachable ||
                              obstacle == Obstacle::refused || obstacle == Obstacle::unresolved;
  std::string todo = search_advice(obstacle);
  if (may_be_network && !own_addresses_.empty()) {
    todo +=
        "; this node is at " + own_addresses_ +
        (own_addresses_ == kNoAddressText ? ""
                                          : ": an endpoint on a network of these can be reached");
  }
  return todo;
}

}  // namespace ddprun
