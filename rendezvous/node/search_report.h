// SearchReport: what an agent that cannot reach the endpoint yet tells people: each address that it
// tries, what happened there and since when, and how long it will go on; and, when that time is
// over, the one sentence about it (field complaints I-1, I-2). Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/report_schedule.h"

namespace ddprun {

/// Why a try did not reach a coordinator; the later, the nearer it came.
enum class Obstacle : std::uint8_t {
  none,
  unresolved,   ///< the name has no address
  filtered,     ///< no answer at all
  unreachable,  ///< an error of the network on the way
  own,          ///< the agent that searches listens there itself
  refused,      ///< the host answers, the port is closed
  leaderless,   ///< an agent of the job answers, and follows no coordinator
  mute,         ///< connected, and no answer to the hello
  closed,       ///< connected, and closed without an answer
  reset,        ///< connected, and reset without an answer
  unbelieved,   ///< an answer of who has not shown the job's credentials
  stranger      ///< an answer in other words than ours
};

struct Trouble {
  Obstacle obstacle = Obstacle::none;
  std::string what;  ///< a clause
};

class SearchReport {
 public:
  using Time = std::chrono::nanoseconds;  ///< on any steady clock

  /// Addresses that are told; a name with more is a load balancer's.
  static constexpr std::size_t kAddressesMax = 8;

  /// `endpoints`: one or more, tried by turns; below each is told by its place.
  /// `own_addresses`: of this machine, for people; empty: they are not told.
  SearchReport(std::vector<Endpoint> endpoints, Time join_timeout, Time started,
               std::string own_addresses = {});

  /// The name's addresses, numeric: what was said of others of this endpoint is forgotten. Empty:
  /// it has none now.
  void resolved(std::size_t place, const std::vector<std::string>& addresses);
  /// A try has failed; an empty address stands for the name itself.
  void tried(std::size_t place, const std::string& address, Trouble trouble, Time now);

  /// True when people are to be told lines().
  bool due(Time now) { return pace_.due(now); }
  /// What is tried, one line for each address; one line in all when there is one only.
  [[nodiscard]] std::vector<std::string> lines(Time now) const;
  /// Why it is given up.
  [[nodiscard]] Error verdict(Time now) const;
  /// "n1 (10.0.0.1) port 29400"; "n1 port 29400" when there is not one address; "n1 port 29400 and
  /// 2 other endpoints".
  [[nodiscard]] std::string where() const;
  /// The furthest that any address came.
  [[nodiscard]] Trouble worst() const;
  [[nodiscard]] Trouble worst_at(std::size_t place) const;
  /// For how long it was seen there: from the first try that found it to the last one, which was at
  /// `now` or before. Of other times (this process was stopped, another thing was there) nobody
  /// knows.
  [[nodiscard]] Time worst_for(Time now) const;

 private:
  struct Row {
    std::size_t place = 0;
    std::string address;
    Trouble trouble;
    Time since{};       ///< for people: of the first row, from the start of the search
    Time first_seen{};  ///< by a try
    Time last_seen{};
  };
  [[nodiscard]] const Row* furthest(std::optional<std::size_t> place = {}) const;
  [[nodiscard]] std::string label(const Row& row) const;
  [[nodiscard]] std::string advice(Obstacle obstacle) const;

  std::vector<Endpoint> endpoints_;
  Time join_timeout_;
  Time started_;
  std::string own_addresses_;
  std::vector<Row> rows_;
  ReportSchedule pace_;
};

/// Of a connection that could not be made; `message` is the system's.
Trouble connect_trouble(bool refused, std::string message);

Trouble was_closed();
Trouble was_reset();

/// Why nobody else may come, for the host that waits alone (field complaint I-3). `literal`: the
/// endpoint's host is an address, or localhost. No own address: this node was told to host.
std::string host_note(const std::string& host, bool literal, const std::string& own_address,
                      bool own_is_local = false);

/// What the person at this node can do.
std::string search_advice(Obstacle obstacle);

}  // namespace ddprun
