#include "rendezvous/consensus/kubernetes_service.h"

#include <fmt/core.h>
#include <sodium.h>

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "rendezvous/base/check.h"
#include "rendezvous/consensus/lease_exchange.h"
#include "rendezvous/consensus/lease_name.h"
#include "rendezvous/consensus/tenured_service.h"

namespace ddprun {
namespace {

/// The one place where both clocks are read. That on the wall is for people, and for what was left
/// by an earlier run.
LeaseKeeper::Moment this_moment() {
  return {
      std::chrono::steady_clock::now().time_since_epoch(),
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now())};
}

/// As client-go's users name themselves: the host, and what another process of that host has not.
LeaseKeeper::Owner owner_of(const KubernetesServiceOptions& options) {
  std::uint64_t drawn = 0;
  randombytes_buf(&drawn, sizeof drawn);
  return {options.job_id, fmt::format("{}_{:016x}", options.host_name, drawn), drawn};
}

/// Callbacks have `this`: they are the client's, which is a member, and stop with it.
class KubernetesService : public TenuredService {
 public:
  KubernetesService(boost::asio::io_context& io, KubernetesServiceOptions options)
      : TenuredService(io, TenureLeases::of(options.heartbeat_timeout, options.join_timeout)),
        exchange_(owner_of(options),
                  TenureLeases::of(options.heartbeat_timeout, options.join_timeout)),
        client_(io, std::move(options.access), lease_name(options.job_id)) {}

  /// As log lines call it: "Kubernetes answers again".
  [[nodiscard]] std::string name() const override { return "Kubernetes"; }

  void read(OnView on_view) override {
    readers_.emplace(++last_id_, std::move(on_view));
    carry_out(exchange_.asked(this_moment(), last_id_, ReadView{}));
  }

  /// The API server is the whole cluster's, and a large job has thousands who ask.
  [[nodiscard]] std::chrono::milliseconds ask_each() const override {
    return std::chrono::milliseconds(1'000);
  }
  [[nodiscard]] std::string trouble() const override { return exchange_.trouble(); }

 private:
  void ask(tenure::Ticket ticket, const ServiceQuestion& question) override {
    tickets_.emplace(++last_id_, ticket);
    carry_out(exchange_.asked(this_moment(), last_id_, question));
  }

  /// What is done about an answer may bring about the next question, or end this service.
  void carry_out(LeaseExchange::Actions actions) {
    const std::weak_ptr<bool> here = here_;
    for (lease_exchange::Action& action : actions) {
      if (!here.expired()) {
        std::visit([this](auto& order) { carry_out(std::move(order)); }, action);
      }
    }
  }
  /// One is under way at a time: LeaseExchange asks for the next after replied().
  void carry_out(lease_exchange::Request order) {
    client_.ask(order.verb, std::move(order.body), order.pause, [this](LeaseReply reply) {
      carry_out(exchange_.replied(this_moment(), std::move(reply)));
    });
  }
  void carry_out(const lease_exchange::Viewed& order) {
    const auto reader = readers_.extract(order.id);
    DDP_CHECK(!reader.empty(), "a reader is answered once");
    reader.mapped()(order.view);
  }
  void carry_out(const lease_exchange::Ended& order) {
    const auto ticket = tickets_.extract(order.id);
    DDP_CHECK(!ticket.empty(), "a question is answered once");
    answered(ticket.mapped(), order.answer);
  }

  LeaseExchange exchange_;
  KubernetesClient client_;
  std::map<lease_exchange::Id, OnView> readers_;
  std::map<lease_exchange::Id, tenure::Ticket> tickets_;
  lease_exchange::Id last_id_ = 0;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);  ///< this object is
};

}  // namespace

std::unique_ptr<ConsensusService> make_kubernetes_service(boost::asio::io_context& io,
                                                          KubernetesServiceOptions options) {
  return std::make_unique<KubernetesService>(io, std::move(options));
}

}  // namespace ddprun
