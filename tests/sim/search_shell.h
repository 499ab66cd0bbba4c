// SearchShell: does for LeaderSearch in the simulation what control/join does: names, connections
// and one timer. A machine has one address, which is its name.
#pragma once

#include <memory>
#include <optional>

#include "rendezvous/node/leader_search.h"
#include "tests/sim/network.h"

namespace ddprun::sim {

class AgentShell;
class Machine;

class SearchShell {
 public:
  SearchShell(Machine& machine, SearchRequest request, AgentShell& agent);
  ~SearchShell();
  SearchShell(const SearchShell&) = delete;
  SearchShell& operator=(const SearchShell&) = delete;

  /// Where it waits for an answer.
  [[nodiscard]] const std::optional<ConnectionId>& connection() const { return connection_; }
  void on_message(const Message& said);
  /// Its machine lost power.
  void lose_connection();
  [[nodiscard]] const LeaderSearch& decides() const { return decides_; }

 private:
  /// What follows at once from an action.
  using Answer = std::optional<search::Input>;

  void step(search::Input input);
  void arm();
  Answer carry_out(const search::Resolve& order);
  Answer carry_out(const search::Bind& order);
  Answer carry_out(const search::Connect& order);
  Answer carry_out(const search::SayHello& order);
  Answer carry_out(const search::SayProbe& order);
  Answer carry_out(const search::Disconnect& order);
  Answer carry_out(const search::AskLinks& order);
  Answer carry_out(const LogLine& order);
  Answer carry_out(const search::HostEndpoint& order);
  Answer carry_out(const HelloAccepted& order);
  Answer carry_out(const SearchFailed& order);
  [[nodiscard]] bool is_reached() const;
  void knock_again();
  void disconnect();
  [[nodiscard]] int machine_at(const std::string& address) const;

  Machine& machine_;
  AgentShell& agent_;
  LeaderSearch decides_;
  std::optional<ConnectionId> connection_;
  std::optional<Instant> armed_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);  ///< this object is
};

}  // namespace ddprun::sim
