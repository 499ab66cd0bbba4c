#include "rendezvous/consensus/etcd_service.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/consensus/etcd_records.h"
#include "rendezvous/node/service_tenure.h"

namespace ddprun {
namespace {

using nlohmann::json;

Instant now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

/// etcd's own words (etcdserver/api/v3rpc/rpctypes, ErrGRPCLeaseNotFound): its gateway's codes are
/// those of many errors.
bool is_lost_lease(const Error& error) {
  return error.what.find("requested lease not found") != std::string::npos;
}

using Answer = Result<ServiceAnswer>;

Answer lease_of(const json& answer) {
  ServiceAnswer lease{true, 0, text_at(answer, "ID"), false};
  return lease.lease.empty() ? Answer(Error{"etcd gave no lease", {}, {}}) : Answer(lease);
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
             ? Answer(Error{"etcd says that it has written, and no revision", {}, {}})
             : Answer(done);
}

/// Carries ServiceTenure's questions to etcd and its answers back. Callbacks have `this`: they are
/// the client's, which is a member, and stop with it.
class EtcdService : public ConsensusService {
 public:
  EtcdService(boost::asio::io_context& io, EtcdServiceOptions options)
      : keys_(options.job_id),
        tenure_(TenureLeases::of(options.heartbeat_timeout, options.join_timeout)),
        client_(io, std::move(options.access)),
        timer_(io) {}

  [[nodiscard]] std::string name() const override { return "etcd"; }

  void read(OnView on_view) override {
    client_.ask("/v3/kv/txn", read_question(keys_),
                [this, on_view = std::move(on_view)](const Result<json>& answer) {
                  answer ? on_view(view_of(keys_, *answer)) : on_view(answer.error());
                });
  }

  void lead(const ServiceView& seen, const LeaderRecord& self, OnDone on_done) override {
    step(tenure::LeadWished{wish(std::move(on_done)), seen, self});
  }
  void commit(const std::string& state, OnDone on_done) override {
    step(tenure::StateGiven{wish(std::move(on_done)), state});
  }
  void let_go() override { step(tenure::LetGo{}); }
  void resign(bool job_is_over, OnDone on_done) override {
    step(tenure::ResignWished{wish(std::move(on_done)), job_is_over});
  }

  [[nodiscard]] Instant leads_until() const override { return tenure_.leads_until(); }
  [[nodiscard]] std::string trouble() const override { return client_.trouble(); }

 private:
  tenure::WishId wish(OnDone on_done) {
    wishes_.emplace(++last_wish_, std::move(on_done));
    return last_wish_;
  }

  /// What is done about a wish may bring about the next one, so the timer is set first.
  void step(tenure::Input input) {
    std::vector<tenure::Action> actions = tenure_.step(now(), std::move(input));
    arm();
    for (tenure::Action& action : actions) {
      std::visit([this](auto& order) { carry_out(std::move(order)); }, action);
    }
  }

  void arm() {
    const auto due = tenure_.next_deadline();
    if (due == armed_for_) {
      return;
    }
    armed_for_ = due;
    timer_.cancel();
    if (due) {
      timer_.expires_at(std::chrono::steady_clock::time_point(*due));
      timer_.async_wait([this](boost::system::error_code failed) {
        if (!failed) {
          armed_for_.reset();
          step(tenure::TimePassed{});
        }
      });
    }
  }

  void carry_out(const tenure::Done& order) {
    const auto found = wishes_.find(order.wish);
    DDP_CHECK(found != wishes_.end(), "a wish is answered once");
    const OnDone on_done = std::move(found->second);
    wishes_.erase(found);
    on_done(order.done);
  }

  void carry_out(const tenure::Ask& order) {
    std::visit([&](const auto& question) { ask(order.ticket, question); }, order.question);
  }
  void ask(tenure::Ticket /*ticket*/, const ReadView& /*question*/) {
    DDP_CHECK(false, "who leads knows what it sees");
  }
  /// etcd chooses the number of the lease.
  void ask(tenure::Ticket ticket, const GrantLease& question) {
    send(ticket, "/v3/lease/grant", json{{"TTL", std::to_string(question.lasts.count())}},
         lease_of);
  }
  void ask(tenure::Ticket ticket, const RenewLease& question) {
    send(ticket, "/v3/lease/keepalive", json{{"ID", question.lease}}, renewal_of);
  }
  void ask(tenure::Ticket ticket, const RevokeLease& question) {
    send(ticket, "/v3/lease/revoke", json{{"ID", question.lease}}, [](const json&) {
      return Answer(ServiceAnswer{true, 0, {}, false});
    });
  }
  void ask(tenure::Ticket ticket, const ServiceTransaction& question) {
    send(ticket, "/v3/kv/txn", transaction_question(keys_, question), written_by);
  }

  void send(tenure::Ticket ticket, const char* path, const json& question,
            Answer (*answer_of)(const json&)) {
    client_.ask(path, question, [this, ticket, answer_of](const Result<json>& answer) {
      step(tenure::Answered{ticket, answer ? answer_of(*answer)
                                    : is_lost_lease(answer.error())
                                        ? ServiceAnswer{false, 0, {}, true}
                                        : Answer(answer.error())});
    });
  }

  EtcdKeys keys_;
  ServiceTenure tenure_;
  EtcdClient client_;
  boost::asio::steady_timer timer_;
  std::optional<Instant> armed_for_;
  std::map<tenure::WishId, OnDone> wishes_;  ///< not done yet
  tenure::WishId last_wish_ = 0;
};

}  // namespace

std::unique_ptr<ConsensusService> make_etcd_service(boost::asio::io_context& io,
                                                    EtcdServiceOptions options) {
  return std::make_unique<EtcdService>(io, std::move(options));
}

}  // namespace ddprun
