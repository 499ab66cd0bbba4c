// ServiceClient: one process at the simulated consensus service. It does for ServiceTenure what
// consensus/etcd_service and etcd_client do: one question after the other, each with the patience
// for one member, and then for another.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/node/service_tenure.h"
#include "tests/sim/service.h"

namespace ddprun::sim {

class Machine;

class ServiceClient {
 public:
  using OnView = std::function<void(const Result<ServiceView>& view)>;
  using OnDone = std::function<void(const Result<bool>& done)>;

  explicit ServiceClient(Machine& machine);
  ~ServiceClient();
  ServiceClient(const ServiceClient&) = delete;
  ServiceClient& operator=(const ServiceClient&) = delete;

  void read(OnView on_view);
  void lead(const ServiceView& seen, const LeaderRecord& self, OnDone on_done);
  void commit(const std::string& state, OnDone on_done);
  void let_go() { step(tenure::LetGo{}); }
  void resign(bool job_is_over);
  [[nodiscard]] Instant leads_until() const { return tenure_.leads_until(); }
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  using OnReply = std::function<void(const Result<Service::Reply>& reply)>;
  struct Question {
    ServiceQuestion question;
    OnReply on_reply;
    int members_tried = 0;
  };

  tenure::WishId wish(OnDone on_done);
  void step(tenure::Input input);
  void arm();
  void carry_out(const tenure::Ask& order);
  void carry_out(const tenure::Done& order);
  void ask(ServiceQuestion question, OnReply on_reply);
  void send();
  void next_member();
  void end(const Result<Service::Reply>& reply);

  Machine& machine_;
  ServiceTenure tenure_;
  std::optional<Instant> armed_;
  std::map<tenure::WishId, OnDone> wishes_;
  tenure::WishId last_wish_ = 0;
  std::deque<Question> questions_;  ///< the first is under way
  std::uint64_t round_ = 0;         ///< what is answered to an earlier one comes too late
  std::string trouble_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);  ///< this object is
};

}  // namespace ddprun::sim
