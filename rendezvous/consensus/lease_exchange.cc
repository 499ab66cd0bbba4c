#include "rendezvous/consensus/lease_exchange.h"

#include <fmt/core.h>

#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// Of one question. Each conflict is a write of somebody else that was done, and a job's agents
/// write once a second: only somebody who does nothing else would be in the way so often.
constexpr int kWritesMax = 8;
/// Of one question to a server that says it has failed, or does not answer: the second finds out
/// whether the first was done. More, without a pause, would only press it.
constexpr int kFailedWritesMax = 2;

}  // namespace

LeaseExchange::LeaseExchange(const LeaseKeeper::Owner& owner, TenureLeases leases)
    : keeper_(owner, leases), conflicts_(owner.drawn) {}

/// The mark is drawn once for each question, however often it is sent.
LeaseExchange::Actions LeaseExchange::asked(Moment at, lease_exchange::Id id,
                                            const ServiceQuestion& question) {
  questions_.push_back({id, question, keeper_.new_name()});
  Actions actions;
  proceed(at, actions);
  return actions;
}

LeaseExchange::Actions LeaseExchange::replied(Moment at, LeaseReply reply) {
  DDP_CHECK(is_waiting_ && !questions_.empty(), "what is answered was asked");
  DDP_CHECK(reply.kind != LeaseReply::Kind::busy, "a server that is busy is asked again");
  is_waiting_ = false;
  Actions actions;
  if (verb_ == LeaseVerb::get) {
    read(at, std::move(reply), actions);
  } else {
    written(at, std::move(reply), actions);
  }
  proceed(at, actions);
  return actions;
}

/// Until something has to be waited for.
void LeaseExchange::proceed(Moment at, Actions& actions) {
  while (!is_waiting_ && !questions_.empty() && answer(at, actions)) {
  }
}

/// Whether the question has ended: else a request is under way. A write may go by what is known,
/// since the server refuses it where that is old. An answer without a write, and an error, are of
/// what was read for it.
bool LeaseExchange::answer(Moment at, Actions& actions) {
  const Question& asked = questions_.front();
  if (std::holds_alternative<GrantLease>(asked.question)) {
    return end(actions,
               ServiceAnswer{true, 0, asked.mark, false});  // nothing is written with it yet
  }
  const bool reads = std::holds_alternative<ReadView>(asked.question);
  if (!is_known_ || (reads && !asked.is_fresh)) {
    return request(actions, LeaseVerb::get, {});
  }
  if (reads) {
    actions.emplace_back(lease_exchange::Viewed{asked.id, keeper_.view(at)});
    questions_.pop_front();
    return true;
  }
  auto decision = keeper_.decide(asked.question, asked.mark, at);
  if (auto* write = std::get_if<LeaseKeeper::Write>(&decision)) {
    done_ = std::move(write->done);
    ++questions_.front().writes;
    return request(actions, write->creates ? LeaseVerb::create : LeaseVerb::update,
                   std::move(write->body));
  }
  if (!asked.is_fresh) {
    return request(actions, LeaseVerb::get, {});
  }
  if (const auto* error = std::get_if<Error>(&decision)) {
    return end(actions, *error);
  }
  return end(actions, std::get<ServiceAnswer>(std::move(decision)));
}

bool LeaseExchange::request(Actions& actions, LeaseVerb verb, std::string body) {
  is_waiting_ = true;
  verb_ = verb;
  actions.emplace_back(lease_exchange::Request{verb, std::move(body), std::exchange(pause_, {})});
  return false;
}

/// The question goes before its answer is handed out, so that the next one is at the front.
bool LeaseExchange::end(Actions& actions, Result<ServiceAnswer> answer) {
  const Question& asked = questions_.front();
  if (std::holds_alternative<ReadView>(asked.question)) {
    DDP_CHECK(!answer, "a view is told apart");
    actions.emplace_back(lease_exchange::Viewed{asked.id, answer.error()});
  } else {
    actions.emplace_back(lease_exchange::Ended{asked.id, std::move(answer)});
  }
  questions_.pop_front();
  return true;
}

/// A server that cannot be read is not written to: what would be written is of an object that is
/// not known.
void LeaseExchange::read(Moment at, LeaseReply reply, Actions& actions) {
  is_known_ = reply.kind == LeaseReply::Kind::done || reply.kind == LeaseReply::Kind::absent;
  if (!is_known_) {
    trouble_ = reply.why.sentence();
    end(actions, reply.why);
    return;
  }
  DDP_CHECK(reply.lease.has_value() == (reply.kind == LeaseReply::Kind::done),
            "an object is there");
  keeper_.saw(at.now, reply.lease ? std::move(*reply.lease) : JobLease{});
  if (!trouble_is_of_writing_) {
    trouble_.clear();
  }
  questions_.front().is_fresh = true;
}

/// What was not answered may have been done: the object tells, if it can be read. A transaction
/// that the server refuses is no trouble: its asker is told, and other writes may go on.
void LeaseExchange::written(Moment at, LeaseReply reply, Actions& actions) {
  if (reply.kind == LeaseReply::Kind::done && reply.lease->writer != questions_.front().mark) {
    // Something between this process and the store takes our annotations away, or answers of its
    // own: whoever goes on leads by an entry that nobody sees.
    is_known_ = false;
    const Error why{
        "what ddprun has written is not in the Lease of this job, though the server says "
        "that it was done",
        {},
        "see with kubectl get lease -o yaml what takes annotations ddprun.io/ away"};
    trouble_ = why.sentence();
    trouble_is_of_writing_ = true;
    end(actions, why);
    return;
  }
  if (reply.kind == LeaseReply::Kind::done) {
    keeper_.saw(at.now, std::move(*reply.lease));
    trouble_.clear();
    trouble_is_of_writing_ = false;
    conflicts_.reset();
    end(actions, std::move(done_));
    return;
  }
  not_written(std::move(reply), actions);
}

/// The pause after a conflict is one before the next request, whatever that asks: a server that
/// refuses all writes is not pressed by the questions that wait either.
void LeaseExchange::not_written(LeaseReply reply, Actions& actions) {
  is_known_ = false;
  const Question& asked = questions_.front();
  const bool is_refused = reply.kind == LeaseReply::Kind::refused;
  const bool is_late = reply.kind == LeaseReply::Kind::conflict;
  if (is_late) {
    pause_ = conflicts_.next();
  }
  // Who wrote meanwhile may have changed nothing that this question depends on.
  if (!is_refused && asked.writes < (is_late ? kWritesMax : kFailedWritesMax)) {
    return;  // it is read again
  }
  Error why = std::move(reply.why);
  if (is_late) {
    // With the server's words: it may say so for another reason than a second writer.
    why.what = fmt::format(
        "{} writes in a row of the Lease of this job came too late ({}), and "
        "ddprun tries about once a second until one does not",
        kWritesMax, why.what);
    why.todo = "see with kubectl get lease -o yaml --show-managed-fields who else writes it";
  }
  if (!is_refused || !std::holds_alternative<ServiceTransaction>(asked.question)) {
    trouble_ = why.sentence();
    trouble_is_of_writing_ = true;
  }
  end(actions, std::move(why));
}

}  // namespace ddprun
