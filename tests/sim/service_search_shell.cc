#include "tests/sim/service_search_shell.h"

#include <algorithm>
#include <utility>

#include "tests/sim/cluster.h"
#include "tests/sim/machine.h"
#include "tests/sim/service_client.h"

namespace ddprun::sim {

ServiceSearchShell::ServiceSearchShell(Machine& machine, ServiceClient& client, Tell tell)
    : machine_(machine), client_(client), tell_(std::move(tell)) {}

ServiceSearchShell::~ServiceSearchShell() {
  *here_ = false;
}

void ServiceSearchShell::start(std::optional<DeadLeader> dead, const NodeDescription& self) {
  step(service_search::Started{dead, self, JobInstance{number(self.voter)}, milliseconds(200)});
}

void ServiceSearchShell::step(service_search::Input input) {
  const std::shared_ptr<bool> here = here_;
  auto actions = search_.step(machine_.now(), std::move(input));
  arm();
  for (service_search::Action& action : actions) {
    if (*here) {
      std::visit([this](auto& order) { carry_out(order); }, action);
    }
  }
}

void ServiceSearchShell::arm() {
  const auto due = search_.next_deadline();
  if (due == armed_) {
    return;
  }
  armed_ = due;
  if (due) {
    machine_.later(std::max(*due - machine_.now(), Duration(0)), [this, here = here_, due] {
      if (*here && armed_ == due) {
        armed_.reset();
        step(service_search::TimePassed{});
      }
    });
  }
}

void ServiceSearchShell::carry_out(const service_search::ReadService& order) {
  client_.read([this, here = here_, search = order.search](const Result<ServiceView>& view) {
    if (*here) {
      step(service_search::Viewed{search, view});
    }
  });
}

void ServiceSearchShell::carry_out(const service_search::TryToLead& order) {
  client_.lead(order.seen, order.self, [this, here = here_, order](const Result<bool>& leads) {
    if (*here) {
      step(service_search::Tried{order.seen, order.self, leads});
    }
  });
}

void ServiceSearchShell::carry_out(const service_search::TellNode& order) {
  const std::shared_ptr<bool> here = here_;
  const bool leads = tell_(order.input);
  if (*here && !leads && std::holds_alternative<Appointed>(order.input)) {
    step(service_search::Unwanted{});
  }
}

void ServiceSearchShell::carry_out(const service_search::Resign& /*order*/) {
  client_.resign(false);
}

void ServiceSearchShell::carry_out(const LogLine& order) {
  if (machine_.cluster().tracing()) {
    machine_.cluster().log(machine_.index(), order.text);
  }
}

}  // namespace ddprun::sim
