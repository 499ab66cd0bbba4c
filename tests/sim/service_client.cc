#include "tests/sim/service_client.h"

#include <algorithm>
#include <utility>

#include "tests/sim/cluster.h"
#include "tests/sim/machine.h"

namespace ddprun::sim {
namespace {

/// As etcd_client's, of a cluster of that many.
constexpr Duration kMemberPatience = milliseconds(1'500);
constexpr int kMembers = 2;

TenureLeases leases_of(const SimOptions& options, int machine) {
  return TenureLeases::of(std::chrono::duration_cast<milliseconds>(options.timeout_of(machine)),
                          std::chrono::duration_cast<milliseconds>(options.join_timeout));
}

}  // namespace

ServiceClient::ServiceClient(Machine& machine)
    : machine_(machine), tenure_(leases_of(machine.cluster().options(), machine.index())) {}

ServiceClient::~ServiceClient() {
  *here_ = false;
}

void ServiceClient::read(OnView on_view) {
  ask(ReadView{}, [on_view = std::move(on_view)](const Result<Service::Reply>& reply) {
    reply ? on_view(reply->view) : on_view(reply.error());
  });
}

void ServiceClient::lead(const ServiceView& seen, const LeaderRecord& self, OnDone on_done) {
  step(tenure::LeadWished{wish(std::move(on_done)), seen, self});
}

void ServiceClient::commit(const std::string& state, OnDone on_done) {
  step(tenure::StateGiven{wish(std::move(on_done)), state});
}

void ServiceClient::resign(bool job_is_over) {
  step(tenure::ResignWished{0, job_is_over});
}

tenure::WishId ServiceClient::wish(OnDone on_done) {
  wishes_.emplace(++last_wish_, std::move(on_done));
  return last_wish_;
}

// --- ServiceTenure and its timer ------------------------------------------------------------

void ServiceClient::step(tenure::Input input) {
  std::vector<tenure::Action> actions = tenure_.step(machine_.now(), std::move(input));
  arm();
  for (tenure::Action& action : actions) {
    std::visit([this](auto& order) { carry_out(order); }, action);
  }
}

void ServiceClient::arm() {
  const auto due = tenure_.next_deadline();
  if (due == armed_) {
    return;
  }
  armed_ = due;
  if (due) {
    machine_.later(std::max(*due - machine_.now(), Duration(0)), [this, here = here_, due] {
      if (*here && armed_ == due) {
        armed_.reset();
        step(tenure::TimePassed{});
      }
    });
  }
}

void ServiceClient::carry_out(const tenure::Done& order) {
  const auto found = wishes_.find(order.wish);
  const OnDone on_done = std::move(found->second);
  wishes_.erase(found);
  on_done(order.done);
}

void ServiceClient::carry_out(const tenure::Ask& order) {
  ask(order.question, [this, ticket = order.ticket](const Result<Service::Reply>& reply) {
    step(tenure::Answered{ticket, reply ? Result<ServiceAnswer>(reply->answer)
                                        : Result<ServiceAnswer>(reply.error())});
  });
}

// --- Questions ------------------------------------------------------------------------------

void ServiceClient::ask(ServiceQuestion question, OnReply on_reply) {
  questions_.push_back({std::move(question), std::move(on_reply)});
  if (questions_.size() == 1) {
    send();
  }
}

void ServiceClient::send() {
  const std::uint64_t round = ++round_;
  Cluster& cluster = machine_.cluster();
  cluster.service()->ask(machine_.index(), questions_.front().question,
                         [this, here = here_, round](const Service::Reply& reply) {
                           if (*here) {
                             machine_.when_it_runs([this, here, round, reply] {
                               if (*here && round == round_) {
                                 end(reply);
                               }
                             });
                           }
                         });
  machine_.later(kMemberPatience, [this, here = here_, round] {
    if (*here && round == round_) {
      next_member();
    }
  });
}

void ServiceClient::next_member() {
  if (++questions_.front().members_tried < kMembers) {
    send();
  } else {
    end(Error{"the service does not answer", {}, {}});
  }
}

/// The question goes first: who is told may ask the next one, or end this client.
void ServiceClient::end(const Result<Service::Reply>& reply) {
  ++round_;
  trouble_ = reply ? std::string() : reply.error().what;
  const std::shared_ptr<bool> here = here_;
  const Question done = std::move(questions_.front());
  done.on_reply(reply);
  if (!*here) {
    return;
  }
  questions_.pop_front();
  if (!questions_.empty()) {
    send();
  }
}

}  // namespace ddprun::sim
