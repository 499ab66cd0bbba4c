#include "rendezvous/node/service_contact.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// In a heartbeat timeout; as often as an agent's beats.
constexpr int kContacts = 4;
/// A lease is renewed each second (ServiceTenure), and a question may wait for some more.
constexpr std::chrono::seconds kRenewalsMissed{6};

}  // namespace

ServiceContact::ServiceContact(std::chrono::milliseconds heartbeat_timeout, NodeId session,
                               std::string service)
    : heartbeat_timeout_(heartbeat_timeout), session_(session), service_(std::move(service)) {
  DDP_CHECK(heartbeat_timeout_.count() > 0, "a contact has an age to be judged by");
}

/// Nobody else leads before leads_until. A contact that is a heartbeat timeout older than that
/// makes the coordinator and its agents stop by then.
ServiceVoterActions ServiceContact::look(Instant now, const Reading& reading) {
  ServiceVoterActions actions;
  tell_trouble(now, reading, actions);
  if (reading.leads_until == Instant{} && !std::exchange(was_replaced_, true)) {
    actions.emplace_back(AskWhoLeads{});  // who leads, or somebody has removed this one's entry
  }
  const Instant contact = std::min(now, reading.leads_until - heartbeat_timeout_);
  actions.emplace_back(TellLeader{SessionEchoed{session_, contact}});
  look_at_ = now + heartbeat_timeout_ / kContacts;
  return actions;
}

/// While the lease lasts the job goes on, and people see why it may not for long.
void ServiceContact::tell_trouble(Instant now, const Reading& reading,
                                  ServiceVoterActions& actions) {
  const std::string trouble = trouble_of(now, reading);
  if (in_trouble_ == !trouble.empty()) {
    return;
  }
  in_trouble_ = !trouble.empty();
  actions.emplace_back(
      LogLine{true, in_trouble_ ? trouble + "; the job goes on without it for up to " +
                                      seconds_text(std::max(reading.leads_until - now, Instant{}))
                                : service_ + " answers again"});
}

/// It may answer all questions but the one that keeps the lease.
std::string ServiceContact::trouble_of(Instant now, const Reading& reading) {
  if (reading.leads_until > leads_until_) {
    leads_until_ = reading.leads_until;
    renewed_at_ = now;
  }
  const bool misses = reading.leads_until != Instant{} && now - renewed_at_ > kRenewalsMissed;
  return reading.trouble.empty() && misses
             ? service_ + " answers, but does not renew the lease of this coordinator"
             : reading.trouble;
}

/// This coordinator leads no more, whoever does: that one is followed at once, and where nobody is
/// entered this node asks the service anew. A service that is gone again is asked with the next
/// look.
///
/// An error leaves all as it was, so that the next look asks once more.
ServiceVoterActions ServiceContact::viewed(const Result<ServiceView>& view) {
  was_replaced_ = view.has_value();
  if (!view) {
    return {};
  }
  return {TellLeader{LedByAnother{view->leader}}};
}

}  // namespace ddprun
