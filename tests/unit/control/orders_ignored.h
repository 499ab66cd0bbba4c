// OrdersIgnored: an agent that does nothing that its coordinator says; for tests of one order.
#pragma once

#include "rendezvous/control/coordinator_client.h"

namespace ddprun {

class OrdersIgnored : public CoordinatorOrders {
 public:
  void assign(const message::Assigned&) override {}
  void stop(const message::Stop&) override {}
  void finish(const JobSummary&) override {}
  void waiting(const RendezvousStatus&) override {}
  void rejected(const Error&) override {}
  void lost(const CoordinatorLost&) override {}
};

}  // namespace ddprun
