#include "tests/sim/service_voter_shell.h"

#include <algorithm>
#include <utility>

#include "tests/sim/cluster.h"
#include "tests/sim/machine.h"
#include "tests/sim/service_client.h"

namespace ddprun::sim {

ServiceVoterShell::ServiceVoterShell(Machine& machine, ServiceClient& client, NodeId session,
                                     Duration heartbeat_timeout, Tell tell)
    : machine_(machine),
      client_(client),
      session_(session),
      contact_(std::chrono::duration_cast<milliseconds>(heartbeat_timeout), session, "the service"),
      writer_(session, std::chrono::duration_cast<milliseconds>(heartbeat_timeout)),
      tell_(std::move(tell)) {}

ServiceVoterShell::~ServiceVoterShell() {
  *here_ = false;
}

void ServiceVoterShell::join(NodeDescription witness) {
  tell_(SessionOpened{session_, false, {}});
  tell_(SessionTold{session_, message::Hello{std::move(witness)}});
  look();
}

void ServiceVoterShell::look() {
  carry_out(contact_.look(machine_.now(), {client_.leads_until(), client_.trouble()}));
}

void ServiceVoterShell::write_again() {
  carry_out(writer_.time_passed(machine_.now(), client_.leads_until()));
}

void ServiceVoterShell::carry_out(ServiceVoterActions actions) {
  const std::shared_ptr<bool> here = here_;
  for (ServiceVoterAction& action : actions) {
    if (*here && !stopped_) {
      std::visit([this](auto& order) { carry_out(order); }, action);
    }
  }
  if (*here && !stopped_) {
    arm();
  }
}

void ServiceVoterShell::carry_out(const AskWhoLeads& /*order*/) {
  client_.read([this, here = here_](const Result<ServiceView>& view) {
    if (*here && !stopped_) {
      carry_out(contact_.viewed(view));
    }
  });
}

void ServiceVoterShell::carry_out(const CommitState& order) {
  client_.commit(order.state, [this, here = here_](const Result<bool>& done) {
    if (*here && !stopped_) {
      carry_out(writer_.committed(machine_.now(), client_.leads_until(), done));
    }
  });
}

void ServiceVoterShell::carry_out(const LogLine& order) {
  if (machine_.cluster().tracing()) {
    machine_.cluster().log(machine_.index(), order.text);
  }
}

void ServiceVoterShell::arm() {
  arm(look_armed_, contact_.next_deadline(), &ServiceVoterShell::look);
  arm(write_armed_, writer_.next_deadline(), &ServiceVoterShell::write_again);
}

void ServiceVoterShell::arm(std::optional<Instant>& armed, const std::optional<Instant>& due,
                            void (ServiceVoterShell::*action)()) {
  if (due == armed) {
    return;
  }
  armed = due;
  if (due) {
    machine_.later(std::max(*due - machine_.now(), Duration(0)),
                   [this, here = here_, &armed, due, action] {
                     if (*here && !stopped_ && armed == due) {
                       armed.reset();
                       (this->*action)();
                     }
                   });
  }
}

void ServiceVoterShell::end_job() {
  stopped_ = true;
  client_.resign(true);
}

void ServiceVoterShell::leave() {
  if (!std::exchange(stopped_, true)) {
    client_.let_go();
  }
}

}  // namespace ddprun::sim
