#include "rendezvous/node/service_question.h"

#include "rendezvous/base/check.h"

namespace ddprun {

/// All keys: two agents that saw no leader can name the same term, and one of them is too late. And
/// a leader that is replaced while its entry lives may have written a state meanwhile.
ServiceTransaction enter_leader(const ServiceView& seen, const LeaderRecord& self,
                                const ServiceLease& lease) {
  DDP_CHECK(self.term > seen.newest_term, "each leader has a term of its own");
  ServiceTransaction enter;
  enter.leader_is = seen.leader_revision;
  enter.term_is = seen.term_revision;
  enter.state_is = seen.state_revision;
  enter.leader = self;
  enter.leader_lease = lease;
  enter.term = self.term;
  return enter;
}

/// A leader that was replaced meanwhile overwrites nothing: its key has another revision by then,
/// or is gone. Nor does a write of this leader that comes late: it may have been sent to a member
/// that was slow, then to another one, and be done after newer ones.
ServiceTransaction write_state(std::int64_t leader_revision, std::int64_t state_revision,
                               const std::string& state, const ServiceLease& lease) {
  DDP_CHECK(leader_revision > 0, "who commits leads");
  ServiceTransaction write;
  write.leader_is = leader_revision;
  write.state_is = state_revision;
  write.state = state;
  write.state_lease = lease;
  return write;
}

ServiceTransaction look_at_leader(std::int64_t leader_revision) {
  DDP_CHECK(leader_revision > 0, "who looks at its entry has one");
  ServiceTransaction look;
  look.leader_is = leader_revision;
  return look;
}

/// The term stays while the job goes on, and goes with it. Whoever has replaced this leader is left
/// alone.
ServiceTransaction remove_leader(std::int64_t leader_revision, bool job_is_over) {
  DDP_CHECK(leader_revision > 0, "who resigns has led");
  ServiceTransaction remove;
  remove.leader_is = leader_revision;
  remove.erases_leader = true;
  remove.erases_job = job_is_over;
  return remove;
}

}  // namespace ddprun
