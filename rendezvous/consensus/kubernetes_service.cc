#include "rendezvous/consensus/kubernetes_service.h"

#include <fmt/core.h>
#include <sodium.h>

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <variant>

#include "rendezvous/base/check.h"
#include "rendezvous/consensus/lease_keeper.h"
#include "rendezvous/consensus/lease_name.h"
#include "rendezvous/consensus/tenured_service.h"

namespace ddprun {
namespace {

/// Of one question. Each conflict is a write of somebody else that was done, and a job's agents
/// write once a second; only somebody who does nothing else would be in the way so often.
constexpr int kWritesMax = 8;

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
        keeper_(owner_of(options),
                TenureLeases::of(options.heartbeat_timeout, options.join_timeout)),
        client_(io, std::move(options.access), lease_name(options.job_id)) {}

  [[nodiscard]] std::string name() const override { return "Kubernetes"; }

  void read(OnView on_view) override {
    enqueue(
        {ReadView{}, {}, [this, on_view = std::move(on_view)](const Result<ServiceAnswer>& read) {
           read ? on_view(keeper_.view(this_moment())) : on_view(read.error());
         }});
  }

  [[nodiscard]] std::string trouble() const override { return trouble_; }

 private:
  struct Question {
    ServiceQuestion question;
    std::string mark;
    std::function<void(const Result<ServiceAnswer>& answer)> on_answer;
    bool is_fresh = false;  ///< the object was read for it
    int writes = 0;
  };

  void ask(tenure::Ticket ticket, const ServiceQuestion& question) override {
    enqueue({question, keeper_.new_name(),
             [this, ticket](const Result<ServiceAnswer>& answer) { answered(ticket, answer); }});
  }

  void enqueue(Question question) {
    questions_.push_back(std::move(question));
    begin();
  }

  void begin() {
    if (!is_busy_ && !questions_.empty()) {
      is_busy_ = true;
      proceed();
    }
  }

  /// A write may go by what is known, since the server refuses it where that is old. An answer
  /// without a write, and an error, are of what was read for it.
  void proceed() {
    Question& asked = questions_.front();
    if (std::holds_alternative<GrantLease>(asked.question)) {
      return end(ServiceAnswer{true, 0, asked.mark, false});  // it counts once something has it
    }
    if (!is_known_ || (std::holds_alternative<ReadView>(asked.question) && !asked.is_fresh)) {
      return get();
    }
    if (std::holds_alternative<ReadView>(asked.question)) {
      return end(ServiceAnswer{true, 0, {}, false});
    }
    auto decision = keeper_.decide(asked.question, asked.mark, this_moment());
    if (auto* write = std::get_if<LeaseKeeper::Write>(&decision)) {
      return put(std::move(*write));
    }
    if (!asked.is_fresh) {
      return get();
    }
    if (const auto* error = std::get_if<Error>(&decision)) {
      return end(*error);
    }
    end(std::get<ServiceAnswer>(std::move(decision)));
  }

  void get() {
    client_.ask(LeaseVerb::get, {}, [this](LeaseReply reply) {
      is_known_ = reply.kind == LeaseReply::Kind::done || reply.kind == LeaseReply::Kind::absent;
      if (!is_known_) {
        trouble_ = reply.why.sentence();
        return end(reply.why);
      }
      keeper_.saw(this_moment().now, reply.lease ? std::move(*reply.lease) : JobLease{});
      if (!trouble_is_of_writing_) {
        trouble_.clear();
      }
      questions_.front().is_fresh = true;
      proceed();
    });
  }

  void put(LeaseKeeper::Write write) {
    const LeaseVerb verb = write.creates ? LeaseVerb::create : LeaseVerb::update;
    ++questions_.front().writes;
    client_.ask(verb, std::move(write.body),
                [this, done = std::move(write.done)](LeaseReply reply) {
                  written(std::move(reply), done);
                });
  }

  /// What was not answered may have been done: the object tells, if it can be read. A state that
  /// the server refuses is no trouble of the job's: its coordinator renews by other writes.
  void written(LeaseReply reply, const ServiceAnswer& done) {
    switch (reply.kind) {
      case LeaseReply::Kind::done:
        keeper_.saw(this_moment().now, std::move(*reply.lease));
        trouble_.clear();
        trouble_is_of_writing_ = false;
        return end(done);
      case LeaseReply::Kind::refused:
        is_known_ = false;
        if (!std::holds_alternative<ServiceTransaction>(questions_.front().question)) {
          trouble_ = reply.why.sentence();
          trouble_is_of_writing_ = true;
        }
        return end(reply.why);
      case LeaseReply::Kind::absent:
      case LeaseReply::Kind::conflict:
      case LeaseReply::Kind::unclear:
        break;
      case LeaseReply::Kind::busy:
        DDP_CHECK(false, "the client waits for a server that is busy");
    }
    if (questions_.front().writes < kWritesMax) {
      return get();
    }
    trouble_ = reply.kind == LeaseReply::Kind::unclear
                   ? reply.why.sentence()
                   : fmt::format(
                         "somebody writes the Lease all the time: {} writes in a row met "
                         "another one",
                         kWritesMax);
    trouble_is_of_writing_ = true;
    is_known_ = false;
    end(Error{trouble_, {}, {}});
  }

  /// The question goes first: its callback may ask the next one, or end this service.
  void end(const Result<ServiceAnswer>& answer) {
    const auto done = std::move(questions_.front().on_answer);
    questions_.pop_front();
    is_busy_ = false;
    const std::weak_ptr<bool> here = here_;
    done(answer);
    if (!here.expired()) {
      begin();
    }
  }

  LeaseKeeper keeper_;
  KubernetesClient client_;
  std::deque<Question> questions_;  ///< the first is under way where busy
  bool is_busy_ = false;
  bool is_known_ = false;  ///< the keeper saw an object that may be the newest
  std::string trouble_;
  bool trouble_is_of_writing_ = false;  ///< so only a write shows that it is over
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);  ///< this object is
};

}  // namespace

std::unique_ptr<ConsensusService> make_kubernetes_service(boost::asio::io_context& io,
                                                          KubernetesServiceOptions options) {
  return std::make_unique<KubernetesService>(io, std::move(options));
}

}  // namespace ddprun
