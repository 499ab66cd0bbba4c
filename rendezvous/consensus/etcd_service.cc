#include "rendezvous/consensus/etcd_service.h"

#include <boost/asio/io_context.hpp>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "rendezvous/base/check.h"
#include "rendezvous/consensus/etcd_error.h"
#include "rendezvous/consensus/etcd_records.h"
#include "rendezvous/consensus/tenured_service.h"

namespace ddprun {
namespace {

using nlohmann::json;

/// etcd's own words (etcdserver/api/v3rpc/rpctypes, ErrGRPCLeaseNotFound): its gateway's codes are
/// those of many errors.
bool is_lost_lease(const Error& error) {
  return error.what.find("requested lease not found") != std::string::npos;
}

using Answer = Result<ServiceAnswer>;

Answer lease_of(const json& answer) {
  ServiceAnswer lease{true, 0, text_at(answer, "ID"), false};
  return lease.lease.empty() ? Answer(etcd_unknown_form("etcd gave no lease")) : Answer(lease);
}

Answer renewal_of(const json& answer) {
  return ServiceAnswer{answer.contains("TTL"), 0, {}, false};
}

Answer written_by(const json& answer) {
  if (!has_succeeded(answer)) {
    const auto now = revisions_now(answer);
    return now ? Answer(ServiceAnswer{false, 0, {}, false, now->leader, now->state})
               : Answer(now.error());
  }
  const ServiceAnswer done{true, revision_of(answer), {}, false};
  return done.revision <= 0
             ? Answer(etcd_unknown_form("etcd says that it has written, and no revision"))
             : Answer(done);
}

/// Carries ServiceTenure's questions to etcd and its answers back. Callbacks have `this`: they are
/// the client's, which is a member, and stop with it.
class EtcdService : public TenuredService {
 public:
  EtcdService(boost::asio::io_context& io, EtcdServiceOptions options)
      : TenuredService(io, TenureLeases::of(options.heartbeat_timeout, options.join_timeout)),
        keys_(options.job_id),
        client_(io, std::move(options.access)) {}

  [[nodiscard]] std::string name() const override { return "etcd"; }

  void read(OnView on_view) override {
    client_.ask("/v3/kv/txn", read_question(keys_),
                [this, on_view = std::move(on_view)](const Result<json>& answer) {
                  answer ? on_view(view_of(keys_, *answer)) : on_view(answer.error());
                });
  }

  [[nodiscard]] std::chrono::milliseconds ask_each() const override {
    return std::chrono::milliseconds(200);
  }
  [[nodiscard]] std::string trouble() const override { return client_.trouble(); }

 private:
  void ask(tenure::Ticket ticket, const ServiceQuestion& question) override {
    std::visit([&](const auto& one) { carry(ticket, one); }, question);
  }
  void carry(tenure::Ticket /*ticket*/, const ReadView& /*question*/) {
    DDP_CHECK(false, "who leads knows what it sees");
  }
  /// etcd chooses the number of the lease.
  void carry(tenure::Ticket ticket, const GrantLease& question) {
    send(ticket, "/v3/lease/grant", json{{"TTL", std::to_string(question.lasts.count())}},
         lease_of);
  }
  void carry(tenure::Ticket ticket, const RenewLease& question) {
    send(ticket, "/v3/lease/keepalive", json{{"ID", question.lease}}, renewal_of);
  }
  void carry(tenure::Ticket ticket, const RevokeLease& question) {
    send(ticket, "/v3/lease/revoke", json{{"ID", question.lease}}, [](const json&) {
      return Answer(ServiceAnswer{true, 0, {}, false});
    });
  }
  void carry(tenure::Ticket ticket, const ServiceTransaction& question) {
    send(ticket, "/v3/kv/txn", transaction_question(keys_, question), written_by);
  }

  void send(tenure::Ticket ticket, const char* path, const json& question,
            Answer (*answer_of)(const json&)) {
    client_.ask(path, question, [this, ticket, answer_of](const Result<json>& answer) {
      answered(ticket, answer                          ? answer_of(*answer)
                       : is_lost_lease(answer.error()) ? ServiceAnswer{false, 0, {}, true}
                                                       : Answer(answer.error()));
    });
  }

  EtcdKeys keys_;
  EtcdClient client_;
};

}  // namespace

std::unique_ptr<ConsensusService> make_etcd_service(boost::asio::io_context& io,
                                                    EtcdServiceOptions options) {
  return std::make_unique<EtcdService>(io, std::move(options));
}

}  // namespace ddprun
