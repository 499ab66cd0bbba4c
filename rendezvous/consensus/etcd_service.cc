#include "rendezvous/consensus/etcd_service.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/consensus/etcd_records.h"

namespace ddprun {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Short beside kEtcdAbsence, so that little of the lease is over when etcd goes.
constexpr milliseconds kRenewEach{1'000};

Instant now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

/// etcd counts whole seconds.
/// Upwards: a lease that is shorter than was counted on would be over before its owner stops.
seconds whole(milliseconds time) {
  return std::chrono::ceil<seconds>(time);
}

/// Of the state's lease: it is no vote, and may be renewed rarely.
constexpr seconds kStateLeaseMin{60};

/// etcd's own words (etcdserver/api/v3rpc/rpctypes, ErrGRPCLeaseNotFound): its gateway's codes are
/// those of many errors.
bool is_lost_lease(const Error& error) {
  return error.what.find("requested lease not found") != std::string::npos;
}

/// Callbacks have `this`: they are the client's, which is a member, and stop with it.
class EtcdService : public ConsensusService {
 public:
  EtcdService(boost::asio::io_context& io, EtcdServiceOptions options)
      : keys_(options.job_id),
        leader_ttl_(whole(options.heartbeat_timeout + kEtcdAbsence)),
        state_ttl_(std::max(whole(options.join_timeout), kStateLeaseMin)),
        client_(io, std::move(options.access)),
        renewal_(io) {}

  void read(OnView on_view) override {
    client_.ask("/v3/kv/txn", read_question(keys_),
                [on_view = std::move(on_view)](const Result<json>& answer) {
                  answer ? on_view(view_of(*answer)) : on_view(answer.error());
                });
  }

  /// The lease counts from before it was asked for: etcd's clock began later. An answer that got
  /// lost may have been a success: the question is asked again then, fails, and the lease is
  /// revoked, with which the entry goes.
  void lead(const ServiceView& seen, const LeaderRecord& self, OnDone on_done) override {
    const Instant asked_at = now();
    grant(leader_ttl_, [this, seen, self, asked_at,
                        on_done = std::move(on_done)](const Result<EtcdLease>& lease) {
      if (!lease) {
        return on_done(lease.error());
      }
      client_.ask(
          "/v3/kv/txn", lead_question(keys_, seen, self, *lease),
          [this, lease = *lease, asked_at, on_done](const Result<json>& answer) {
            if (!answer) {
              return on_done(answer.error());
            }
            if (!has_succeeded(*answer)) {
              revoke(lease);
              return on_done(false);
            }
            if (revision_of(*answer) <= 0) {
              return on_done(Error{"etcd says that it has written, and no revision", {}, {}});
            }
            leader_lease_ = lease;
            leader_revision_ = revision_of(*answer);
            leads_until_ = asked_at + leader_ttl_;
            renew_later();
            on_done(true);
          });
    });
  }

  [[nodiscard]] Instant leads_until() const override { return leads_until_; }
  [[nodiscard]] std::string trouble() const override { return client_.trouble(); }

  /// The lease of the state comes with the first of them.
  void commit(const std::string& state, OnDone on_done) override {
    if (leader_revision_ == 0) {
      return on_done(false);
    }
    if (!state_lease_.empty()) {
      return write(state, on_done);
    }
    grant(state_ttl_, [this, state, on_done = std::move(on_done)](const Result<EtcdLease>& lease) {
      if (!lease) {
        return on_done(lease.error());
      }
      state_lease_ = *lease;
      write(state, on_done);
    });
  }

  /// Once nothing is renewed any more. Whoever has replaced this leader is left alone: the
  /// transaction is about its own entry.
  void resign(bool job_is_over, OnDone on_done) override {
    renewal_.cancel();
    leads_until_ = Instant{};
    const std::int64_t revision = std::exchange(leader_revision_, 0);
    if (revision == 0) {
      return on_done(true);
    }
    client_.ask("/v3/kv/txn", resign_question(keys_, revision, job_is_over),
                [on_done = std::move(on_done)](const Result<json>& answer) {
                  answer ? on_done(has_succeeded(*answer)) : on_done(answer.error());
                });
    revoke(std::exchange(leader_lease_, {}));
    if (job_is_over) {
      revoke(std::exchange(state_lease_, {}));
    }
    state_lease_.clear();
  }

 private:
  using OnLease = std::function<void(const Result<EtcdLease>&)>;

  /// etcd chooses the number of the lease.
  void grant(seconds ttl, OnLease on_lease) {
    client_.ask("/v3/lease/grant", json{{"TTL", std::to_string(ttl.count())}},
                [on_lease = std::move(on_lease)](const Result<json>& answer) {
                  if (!answer) {
                    return on_lease(answer.error());
                  }
                  const EtcdLease lease = text_at(*answer, "ID");
                  lease.empty() ? on_lease(Error{"etcd gave no lease", {}, {}}) : on_lease(lease);
                });
  }

  /// A lease that is left ends by itself; this is for the one that waits for its end.
  void revoke(const EtcdLease& lease) {
    if (!lease.empty()) {
      client_.ask("/v3/lease/revoke", json{{"ID", lease}}, [](const Result<json>&) {});
    }
  }

  /// What was to be written is kept, for a lease may end while etcd is away.
  void write(const std::string& state, const OnDone& on_done) {
    state_ = state;
    if (leader_revision_ == 0) {
      return on_done(false);  // it has resigned while the lease was on its way
    }
    client_.ask("/v3/kv/txn", commit_question(keys_, leader_revision_, state, state_lease_),
                [this, state, on_done](const Result<json>& answer) {
                  if (!answer && is_lost_lease(answer.error())) {
                    state_lease_.clear();  // etcd was away for longer than that
                    return commit(state, on_done);
                  }
                  if (!answer) {
                    return on_done(answer.error());
                  }
                  if (!has_succeeded(*answer)) {
                    lost();
                  }
                  on_done(has_succeeded(*answer));
                });
  }

  /// Somebody else leads, or etcd has forgotten this leader.
  /// Nothing of it is renewed: the lease of a leader that was replaced would keep nothing alive.
  void lost() {
    leader_revision_ = 0;
    leads_until_ = Instant{};
    renewal_.cancel();
  }

  /// From the answer on, so that questions do not pile up at an etcd that is slow.
  void renew_later() {
    renewal_.expires_after(kRenewEach);
    renewal_.async_wait([this](boost::system::error_code failed) {
      if (!failed) {
        renew();
      }
    });
  }

  /// The lease counts from the question: etcd begins it anew some time after that.
  void renew() {
    const Instant asked_at = now();
    client_.ask("/v3/lease/keepalive", json{{"ID", leader_lease_}},
                [this, asked_at, lease = leader_lease_](const Result<json>& answer) {
                  if (leader_revision_ == 0 || lease != leader_lease_) {
                    return;  // of a leadership before
                  }
                  if (answer && !answer->contains("TTL")) {
                    return lost();  // it is over
                  }
                  if (answer) {
                    leads_until_ = std::max(leads_until_, asked_at + leader_ttl_);
                  }
                  look_at_own_entry();
                });
    if (!state_lease_.empty() && asked_at - state_renewed_at_ > state_ttl_ / 4) {
      state_renewed_at_ = asked_at;
      client_.ask("/v3/lease/keepalive", json{{"ID", state_lease_}},
                  [this](const Result<json>& answer) {
                    if (answer && !answer->contains("TTL") && leader_revision_ != 0) {
                      state_lease_.clear();  // it is over, and the state went with it
                      commit(state_, [](const Result<bool>&) {});
                    }
                  });
    }
  }

  /// The lease may live while the entry does not: people have etcdctl.
  void look_at_own_entry() {
    client_.ask("/v3/kv/txn", still_leads_question(keys_, leader_revision_),
                [this, revision = leader_revision_](const Result<json>& answer) {
                  if (leader_revision_ != revision) {
                    return;  // of a leadership before
                  }
                  if (answer && !has_succeeded(*answer)) {
                    return lost();
                  }
                  renew_later();
                });
  }

  EtcdKeys keys_;
  seconds leader_ttl_;
  seconds state_ttl_;
  EtcdClient client_;
  boost::asio::steady_timer renewal_;
  EtcdLease leader_lease_;
  EtcdLease state_lease_;
  std::int64_t leader_revision_ = 0;  ///< in which the leader's key was written; 0: it leads not
  Instant leads_until_{};
  Instant state_renewed_at_{};
  std::string state_;  ///< the newest that was to be written
};

}  // namespace

std::unique_ptr<ConsensusService> make_etcd_service(boost::asio::io_context& io,
                                                    EtcdServiceOptions options) {
  return std::make_unique<EtcdService>(io, std::move(options));
}

}  // namespace ddprun
