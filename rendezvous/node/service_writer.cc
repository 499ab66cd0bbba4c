#include "rendezvous/node/service_writer.h"

#include <chrono>
#include <utility>
#include <variant>

#include "rendezvous/base/check.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

/// After a service that did not answer.
constexpr std::chrono::milliseconds kWriteAgain{500};
/// For the answer to a renewal, which is under way where a contact is old.
constexpr std::chrono::milliseconds kAcknowledgeAgain{100};

}  // namespace

/// The acknowledgement is no contact, so it has no stamp: that this process led when the service
/// kept the state says nothing of how long its lease lasts after that (ServiceContact does).
///
/// A new state begins anew what follows it. Other words (tables, the end) are for agents.
ServiceVoterActions ServiceWriter::take(const message::Message& told) {
  if (const auto* state = std::get_if<message::VoterState>(&told)) {
    voter_state_ = encode(told);
    ends_ = state->replicated.ends;
    story_.clear();
    nodes_.clear();
    to_acknowledge_ = message::StateKept{state->replicated.configuration.number, 0};
  } else if (voter_state_.empty()) {
    return {};  // there is nothing yet that this would add to
  } else if (std::holds_alternative<message::Story>(told)) {
    story_ = encode(told);
  } else if (std::holds_alternative<message::MoreNodes>(told)) {
    nodes_ += encode(told);
  } else {
    return {};
  }
  changed_ = true;
  ServiceVoterActions actions;
  write(actions);
  return actions;
}

/// One at a time, and always the newest: what came while one was on its way goes with the next.
/// The acknowledgement is of what was on its way, and may be of a plan that was dropped since.
void ServiceWriter::write(ServiceVoterActions& actions) {
  if (writing_ || !changed_) {
    return;
  }
  writing_ = true;
  changed_ = false;
  on_its_way_ = to_acknowledge_;
  actions.emplace_back(CommitState{voter_state_ + nodes_ + story_});
}

/// A service that lets another process lead takes nothing more: the contact tells that.
ServiceVoterActions ServiceWriter::committed(Instant now, Instant leads_until,
                                             const Result<bool>& done) {
  DDP_CHECK(writing_, "what is answered was asked");
  ServiceVoterActions actions;
  writing_ = false;
  const auto kept = std::exchange(on_its_way_, std::nullopt);
  look_at_.reset();
  if (!done) {
    failed(now, leads_until, done.error(), actions);
  } else if (*done) {
    if (kept) {
      if (to_acknowledge_ && to_acknowledge_->configuration == kept->configuration) {
        to_acknowledge_.reset();
      }
      kept_ = kept;
    }
    refused_why_.clear();
    write(actions);
  } else {
    actions.emplace_back(LookAtContact{});
  }
  acknowledge(now, leads_until, actions);
  return actions;
}

/// A world may begin with the acknowledgement, and its agents rely on a coordinator that they have
/// heard of up to now. They stop within a heartbeat timeout, so nobody else may lead before that.
/// After the end none begins.
void ServiceWriter::acknowledge(Instant now, Instant leads_until, ServiceVoterActions& actions) {
  if (!kept_ || leads_until == Instant{}) {
    return;
  }
  if (ends_ || now + heartbeat_timeout_ <= leads_until) {
    actions.emplace_back(TellLeader{SessionTold{session_, *std::exchange(kept_, std::nullopt)}});
  } else {
    look_at_ = now + kAcknowledgeAgain;
  }
}

/// Whether it answered or not: a full service refuses each write, and answers each other question.
void ServiceWriter::failed(Instant now, Instant leads_until, const Error& why,
                           ServiceVoterActions& actions) {
  if (refused_why_ != why.what) {
    refused_why_ = why.what;
    actions.emplace_back(LogLine{
        true, why.sentence() + (ends_ ? "; the job has ended, but its record stays there, and a "
                                        "new job with this --rdzv-id would go on with it until "
                                        "the join timeout is over"
                                      : "; no new world begins before it has kept the state of "
                                        "the job")});
  }
  // The verdict of a job need not wait for a service that is silent: who is here is told, also
  // after the lease. What has ended for all who are here is not run once more for the sake of a
  // record. One that is known to lead no more says nothing.
  if (ends_ && to_acknowledge_ && leads_until != Instant{}) {
    actions.emplace_back(
        TellLeader{SessionTold{session_, *std::exchange(to_acknowledge_, std::nullopt)}});
    return;
  }
  changed_ = true;
  look_at_ = now + kWriteAgain;
}

ServiceVoterActions ServiceWriter::time_passed(Instant now, Instant leads_until) {
  ServiceVoterActions actions;
  if (look_at_ && now >= *look_at_) {
    look_at_.reset();
    write(actions);
    acknowledge(now, leads_until, actions);
  }
  return actions;
}

}  // namespace ddprun
