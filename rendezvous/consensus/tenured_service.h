// TenuredService: what consensus services with leases share (etcd, Kubernetes): one ServiceTenure,
// its timer, and who waits for what comes of a wish. How its questions travel is the service's own.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/consensus/consensus_service.h"
#include "rendezvous/node/service_tenure.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

class TenuredService : public ConsensusService {
 public:
  void lead(const ServiceView& seen, const LeaderRecord& self, OnDone on_done) final;
  void commit(const std::string& state, OnDone on_done) final;
  void let_go() final;
  void resign(bool job_is_over, OnDone on_done) final;
  [[nodiscard]] Instant leads_until() const final { return tenure_.leads_until(); }
  ~TenuredService() override;

 protected:
  TenuredService(boost::asio::io_context& io, TenureLeases leases);
  /// Carries it to the service, in the order of these calls. answered() follows, maybe from within.
  virtual void ask(tenure::Ticket ticket, const ServiceQuestion& question) = 0;
  void answered(tenure::Ticket ticket, Result<ServiceAnswer> answer);

 private:
  struct Timer;

  tenure::WishId wish(OnDone on_done);
  void step(tenure::Input input);
  void arm();
  void carry_out(const tenure::Done& order);
  void carry_out(const tenure::Ask& order);

  ServiceTenure tenure_;
  std::unique_ptr<Timer> timer_;
  std::optional<Instant> armed_for_;
  std::map<tenure::WishId, OnDone> wishes_;  ///< not done yet
  tenure::WishId last_wish_ = 0;
};

}  // namespace ddprun
