#include "tests/sim/search_shell.h"

#include <algorithm>
#include <utility>

#include "tests/sim/agent_shell.h"
#include "tests/sim/cluster.h"
#include "tests/sim/machine.h"

namespace ddprun::sim {
namespace {

/// A kernel that is not answered asks for the connection again.
constexpr Duration kKnockAgain = seconds(1);

}  // namespace

SearchShell::SearchShell(Machine& machine, SearchRequest request, AgentShell& agent)
    : machine_(machine), agent_(agent), decides_(std::move(request), machine.now()) {
  arm();
}

SearchShell::~SearchShell() {
  *here_ = false;
  disconnect();
}

int SearchShell::machine_at(const std::string& address) const {
  return address.starts_with('n') ? machine_of_host(address) : machine_.index();  // loopback
}

void SearchShell::step(search::Input input) {
  const std::shared_ptr<bool> here = here_;
  Answer next = std::move(input);
  while (next) {
    for (const search::Action& action :
         decides_.step(machine_.now(), *std::exchange(next, std::nullopt))) {
      Answer answer = std::visit([this](const auto& order) { return carry_out(order); }, action);
      if (!*here) {
        return;
      }
      next = answer ? std::move(answer) : std::move(next);
    }
  }
  arm();
}

void SearchShell::arm() {
  const auto due = decides_.next_deadline();
  if (due == armed_) {
    return;
  }
  armed_ = due;
  if (due) {
    const Duration left = std::max(*due - machine_.now(), Duration(0));
    machine_.later(left, [this, here = here_, due] {
      if (*here && armed_ == due) {
        armed_.reset();
        step(search::TimePassed{});
      }
    });
  }
}

// --- Names and ports ------------------------------------------------------------------------

SearchShell::Answer SearchShell::carry_out(const search::Resolve& order) {
  return search::Resolved{{{order.host, machine_at(order.host) == machine_.index()}}, false};
}

SearchShell::Answer SearchShell::carry_out(const search::Bind& order) {
  if (agent_.listens_at(order.port)) {
    return search::BindFailed{true, {}};
  }
  return search::Bound{order.port};
}

// --- The connection -------------------------------------------------------------------------

SearchShell::Answer SearchShell::carry_out(const search::Connect& order) {
  disconnect();
  connection_ =
      machine_.cluster().network().connect(machine_.index(), machine_at(order.address), order.port);
  if (is_reached()) {
    return search::Connected{};
  }
  knock_again();
  return {};
}

/// The network has no handshake. A kernel that is reached takes the connection; where nobody
/// listens, the hello is what is refused.
bool SearchShell::is_reached() const {
  Cluster& cluster = machine_.cluster();
  const int to = cluster.network().machine_of(*connection_, Side::server);
  const Machine& there = cluster.machine(to);
  return there.powered() && there.awake() && cluster.network().passes(machine_.index(), to) &&
         cluster.network().passes(to, machine_.index());
}

void SearchShell::knock_again() {
  machine_.later(kKnockAgain, [this, here = here_, which = connection_] {
    if (!*here || connection_ != which) {
      return;
    }
    if (is_reached()) {
      step(search::Connected{});
    } else {
      knock_again();
    }
  });
}

SearchShell::Answer SearchShell::carry_out(const search::SayHello& order) {
  machine_.cluster().network().send(*connection_, Side::client, order.hello);
  return {};
}

/// An agent closes a connection that begins in other words; one that is stopped does nothing.
SearchShell::Answer SearchShell::carry_out(const search::SayProbe& /*order*/) {
  Cluster& cluster = machine_.cluster();
  const bool runs =
      cluster.machine(cluster.network().machine_of(*connection_, Side::server)).runs();
  return runs ? Answer(search::Disconnected{was_closed()}) : std::nullopt;
}

void SearchShell::on_message(const Message& said) {
  const Network& network = machine_.cluster().network();
  const auto* known = std::get_if<Said>(&said);
  if (known == nullptr) {
    const AgentShell* there =
        machine_.cluster().agent_of(network.machine_of(*connection_, Side::server));
    const bool listens = there != nullptr && there->listens_at(network.port_of(*connection_));
    step(search::Disconnected{!listens                       ? connect_trouble(true, {})
                              : std::get<Closed>(said).reset ? was_reset()
                                                             : was_closed()});
  } else if (const auto* accepted = std::get_if<message::Accepted>(known->get())) {
    step(search::Accepted{*accepted});
  } else if (const auto* rejected = std::get_if<message::Rejected>(known->get())) {
    step(search::Rejected{*rejected});
  } else if (const auto* moved = std::get_if<message::Moved>(known->get())) {
    search::Redirected redirected{*moved, {}};
    std::copy_if(moved->addresses.begin(), moved->addresses.end(),
                 std::back_inserter(redirected.own),
                 [this](const std::string& one) { return machine_at(one) == machine_.index(); });
    step(std::move(redirected));
  }
}

SearchShell::Answer SearchShell::carry_out(const search::Disconnect& /*order*/) {
  disconnect();
  return {};
}

void SearchShell::disconnect() {
  if (connection_) {
    machine_.cluster().network().close(*std::exchange(connection_, std::nullopt), Side::client);
  }
}

void SearchShell::lose_connection() {
  if (connection_) {
    machine_.cluster().network().lose(*std::exchange(connection_, std::nullopt), Side::client);
  }
}

/// A machine has one address, so no other is found.
SearchShell::Answer SearchShell::carry_out(const search::AskLinks& /*order*/) {
  return {};
}

// --- The end --------------------------------------------------------------------------------

SearchShell::Answer SearchShell::carry_out(const LogLine& order) {
  if (machine_.cluster().tracing()) {
    machine_.cluster().log(machine_.index(), order.text);
  }
  return {};
}

SearchShell::Answer SearchShell::carry_out(const search::HostEndpoint& order) {
  agent_.on_bound(order.bound.port);
  return {};
}

SearchShell::Answer SearchShell::carry_out(const HelloAccepted& order) {
  agent_.on_accepted(*std::exchange(connection_, std::nullopt), order);
  return {};
}

SearchShell::Answer SearchShell::carry_out(const SearchFailed& order) {
  agent_.on_search_failed(order);
  return {};
}

}  // namespace ddprun::sim
