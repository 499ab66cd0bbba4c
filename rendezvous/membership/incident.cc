#include "rendezvous/membership/incident.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <tuple>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// The bulky fields; all others are bounded to a line.
std::size_t evidence_bytes(const FailureRecord& record) {
  return record.error_file_json.size() + record.stderr_tail.size() + record.stack.size();
}

}  // namespace

std::string to_clause(const ExitStatus& exit) {
  return exit.kind == ExitStatus::Kind::signalled
             ? "was killed by " + signal_name(exit.value)
             : "exited with code " + std::to_string(exit.value);
}

/// A rack that loses its power is one incident of many nodes: a few names stand for all.
void IncidentBuilder::Names::add(const std::string& host) {
  ++count;
  if (hosts.size() < kNamesInReasonMax) {
    hosts.push_back(host);
  }
}

/// "node n1", "nodes n1, n2, n3, n4 and 7 more"
std::string IncidentBuilder::Names::text() const {
  DDP_CHECK(count > 0 && !hosts.empty(), "somebody is named");
  std::string text = count == 1 ? "node " : "nodes ";
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    text += (i == 0 ? "" : ", ") + hosts[i];
  }
  const int unnamed = count - static_cast<int>(hosts.size());
  DDP_CHECK(unnamed >= 0, "who is named is counted");
  if (unnamed > 0) {
    text += fmt::format(" and {} more", unnamed);
  }
  return text;
}

IncidentBuilder::IncidentBuilder(AttemptNumber attempt, Instant detected_at, int world_size)
    : attempt_(attempt), detected_at_(detected_at), seen_(static_cast<std::size_t>(world_size)) {
  DDP_CHECK(world_size >= 1, "an incident ends an attempt that had workers");
}

/// Of several nodes the first one's reason is kept: the others may have been lost because of it.
void IncidentBuilder::node_lost(const std::string& host_name, const std::string& why,
                                Instant lost_at) {
  lost_.add(host_name);
  if (lost_.count == 1) {
    why_lost_ = why;
  }
  origin_ = std::min(origin_.value_or(lost_at), lost_at);
}

void IncidentBuilder::coordinator_lost(const std::string& why) {
  coordinator_lost_ = why;
  origin_ = detected_at_;
}

void IncidentBuilder::node_joined(const std::string& host_name, Instant at) {
  joined_.add(host_name);
  origin_ = std::min(origin_.value_or(at), at);
}

void IncidentBuilder::node_leaves(const std::string& host_name, Instant at) {
  leaving_.add(host_name);
  origin_ = std::min(origin_.value_or(at), at);
}

/// Records arrive in any order, up to twice per rank, and of a large job by the ten thousand. So
/// surplus ones are dropped on the way (drop_surplus), and `seen_` still rejects their repetition.
void IncidentBuilder::add(FailureRecord record, Instant arrived_at) {
  if (record.rank < 0 || static_cast<std::size_t>(record.rank) >= seen_.size()) {
    return;
  }
  const Instant failed_at = arrived_at - std::max(record.age, std::chrono::nanoseconds(0));
  if (record.exit.success()) {
    if (record.after_stop) {
      return;  // it ended because it was told to
    }
    leavers_.push_back({std::move(record), failed_at});
    std::sort(leavers_.begin(), leavers_.end(), [](const Entry& a, const Entry& b) {
      return std::tuple(a.failed_at, a.record.rank) < std::tuple(b.failed_at, b.record.rank);
    });
    leavers_.resize(std::min(leavers_.size(), kLeaversMax));
    DDP_CHECK(leavers_.size() <= kLeaversMax, "few ranks are named");
    return;
  }
  const auto rank = static_cast<std::size_t>(record.rank);
  if (seen_[rank]) {
    const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.record.rank == record.rank;
    });
    if (same != entries_.end()) {
      // The second report is late by the time that collecting the evidence took.
      same->failed_at = std::min(same->failed_at, failed_at);
      same->record = std::move(record);
    }
    return;
  }
  seen_[rank] = true;
  entries_.push_back({std::move(record), failed_at});
  // Twice the limit, so that the sort is paid once in kIncidentRecordsMax records.
  if (entries_.size() >= 2 * kIncidentRecordsMax) {
    drop_surplus(kIncidentRecordsMax);
  }
}

void IncidentBuilder::count_dropped(int records) {
  DDP_CHECK(records >= 0, "a count of records is not negative");
  dropped_ += std::min(records, static_cast<int>(seen_.size()));
}

void IncidentBuilder::hung(Instant at) {
  hung_at_ = std::min(hung_at_.value_or(at), at);
}

void IncidentBuilder::add_positions(const std::string& host, int group_rank,
                                    const std::vector<WorkerPosition>& positions) {
  for (const WorkerPosition& one : positions) {
    if (one.rank >= 0 && static_cast<std::size_t>(one.rank) < seen_.size()) {
      stands_.try_emplace(one.rank, Stand{one, host, group_rank});
    }
  }
}

/// Rule 0: not if a worker failed by itself, or a node was lost, before the hang was reported. Then
/// the others hang because of that.
bool IncidentBuilder::began_with_hang() const {
  return hung_at_ && !stands_.empty() && (!origin_ || *hung_at_ <= *origin_) &&
         std::none_of(entries_.begin(), entries_.end(), [this](const Entry& entry) {
           return !entry.record.after_stop && !entry.record.peer_lost &&
                  entry.failed_at < *hung_at_;
         });
}

/// Cheap, for a choice among many; who is late in the end is for all positions to tell.
bool IncidentBuilder::may_be_late(int rank) const {
  const auto found = stands_.find(rank);
  return found != stands_.end() &&
         (found->second.position.operation.empty() || !found->second.position.standstill.empty());
}

HangDiagnosis IncidentBuilder::hang_verdict() const {
  std::vector<WorkerPosition> positions;
  positions.reserve(stands_.size());
  for (const auto& [rank, stand] : stands_) {
    positions.push_back(stand.position);
  }
  return judge_hang(std::move(positions));
}

/// The late rank's record becomes the cause's; where its node left without one, it is made here.
void IncidentBuilder::settle_hang() {
  if (!began_with_hang()) {
    return;
  }
  const HangDiagnosis verdict = hang_verdict();
  settled_rank_ = verdict.first;
  auto entry = std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& one) { return one.record.rank == verdict.first; });
  if (entry == entries_.end()) {
    const Stand& stand = stands_.at(verdict.first);
    FailureRecord record;
    record.node = stand.host;
    record.group_rank = stand.group_rank;
    record.rank = verdict.first;
    record.exit = {ExitStatus::Kind::signalled, SIGKILL};
    record.after_stop = true;
    entry = entries_.insert(entries_.end(), Entry{std::move(record), *hung_at_});
  }
  entry->record.hung = true;
  entry->record.message = "hung: " + verdict.text;
}

/// Rules 2 and 3 in one key: workers that do not blame a peer come first, then the earliest, then
/// the lowest rank. Null: no worker failed by itself.
const IncidentBuilder::Entry* IncidentBuilder::first_failed() const {
  const Entry* best = nullptr;
  const auto key = [](const Entry& entry) {
    return std::tuple(entry.record.peer_lost, entry.failed_at, entry.record.rank);
  };
  for (const Entry& entry : entries_) {
    if (!entry.record.after_stop && (best == nullptr || key(entry) < key(*best))) {
      best = &entry;
    }
  }
  return best;
}

/// Rule 3, where all that failed had lost a peer: the rank that they lost, as far as anybody knows.
const IncidentBuilder::Entry* IncidentBuilder::lost_by_victims() const {
  if (!leavers_.empty()) {
    return &leavers_.front();
  }
  const Entry* best = nullptr;
  for (const Entry& entry : entries_) {
    const bool told = entry.record.after_stop && entry.record.own_error;
    if (told && (best == nullptr || std::tuple(entry.failed_at, entry.record.rank) <
                                        std::tuple(best->failed_at, best->record.rank))) {
      best = &entry;
    }
  }
  return best;
}

/// Null: the cause is a lost node, growth, or not known.
const IncidentBuilder::Entry* IncidentBuilder::cause() const {
  if (settled_rank_) {
    const auto settled = std::find_if(entries_.begin(), entries_.end(), [this](const Entry& entry) {
      return entry.record.rank == *settled_rank_;
    });
    DDP_CHECK(settled != entries_.end(), "its record was made when there was none");
    return &*settled;
  }
  const Entry* const first = first_failed();
  if (first == nullptr || (origin_ && (first->record.peer_lost || *origin_ <= first->failed_at))) {
    return nullptr;
  }
  const Entry* const lost = first->record.peer_lost ? lost_by_victims() : nullptr;
  return lost != nullptr ? lost : first;
}

bool IncidentBuilder::spends_restart() const {
  return began_with_hang() || cause() != nullptr || !origin_.has_value();
}

/// Within what can be: an age comes from another machine, and may be anything.
Instant IncidentBuilder::happened_at() const {
  const Entry* entry = cause();
  const Instant at = entry != nullptr ? entry->failed_at : origin_.value_or(detected_at_);
  return std::clamp(at, Instant(0), detected_at_);
}

/// In the order of weight. An incident is often several at once, and downtime is accounted once.
IncidentKind IncidentBuilder::kind() const {
  if (spends_restart()) {
    return IncidentKind::worker_failed;
  }
  if (!coordinator_lost_.empty()) {
    return IncidentKind::coordinator_lost;
  }
  if (lost_.count > 0) {
    return IncidentKind::node_lost;
  }
  return leaving_.count > 0 ? IncidentKind::node_left : IncidentKind::node_joined;
}

/// The order is that of kind(), so that the sentence and the account speak of the same thing.
std::string IncidentBuilder::reason() const {
  if (began_with_hang()) {
    const HangDiagnosis verdict = hang_verdict();
    if (verdict.late.empty()) {
      return "workers hung: " + verdict.text;
    }
    const std::size_t others = verdict.late.size() - 1;
    return fmt::format("rank {} on {}{} hung: {}", verdict.first, stands_.at(verdict.first).host,
                       others > 0 ? fmt::format(" and {} more", others) : "", verdict.text);
  }
  if (const Entry* entry = cause(); entry != nullptr) {
    const FailureRecord& record = entry->record;
    std::string text = fmt::format("rank {} on {} {}", record.rank, record.node,
                                   record.exit.success() ? "left with code 0 while others still ran"
                                   : record.own_error ? "failed, and its peers for the loss of it"
                                                      : to_clause(record.exit));
    // A victim of nobody that failed: whoever could not react is the better lead.
    for (const Entry& other : entries_) {
      if (record.peer_lost && other.record.after_stop && !other.record.note.empty()) {
        return fmt::format("{}, while rank {} on {}: {}", text, other.record.rank,
                           other.record.node, other.record.note);
      }
    }
    return text;
  }
  if (!coordinator_lost_.empty()) {
    return "the coordinator was lost (" + coordinator_lost_ + ")";
  }
  if (lost_.count > 0) {
    return lost_.count == 1
               ? lost_.text() + " was lost (" + why_lost_ + ")"
               : lost_.text() + " were lost (" + lost_.hosts.front() + ": " + why_lost_ + ")";
  }
  if (leaving_.count > 0) {
    return leaving_.text() + (leaving_.count == 1 ? " leaves" : " leave") + " in order";
  }
  if (joined_.count > 0) {
    return joined_.text() + " joined";
  }
  return "the workers of a node ended without a report";
}

/// Whoever left is no failure, so its record is added only where it is the cause. Its end may be
/// noticed after that of its peers: they see its sockets close before its agent sees it end.
void IncidentBuilder::settle_leaver() {
  const Entry* const the_cause = cause();
  if (the_cause == nullptr || !the_cause->record.exit.success()) {
    return;
  }
  const Entry* const victim = first_failed();
  DDP_CHECK(victim != nullptr, "a rank that left is the cause of another's failure");
  Entry left = *the_cause;
  const Instant before = victim->failed_at - left.failed_at;
  left.record.message =
      fmt::format("{}{} failed for the loss of a peer",
                  before > Instant(0) ? "it ended " + seconds_text(before) + " before rank "
                                      : "it ended at the same time as rank ",
                  victim->record.rank);
  for (std::size_t i = 1; i < leavers_.size(); ++i) {
    left.record.message +=
        (i == 1 ? "; so did rank " : ", rank ") + std::to_string(leavers_[i].record.rank);
  }
  settled_rank_ = left.record.rank;
  entries_.push_back(std::move(left));
}

/// To be repeated after each change of the entries, for a new one may take the place of the cause.
void IncidentBuilder::set_blame() {
  const Entry* the_cause = cause();
  for (Entry& entry : entries_) {
    if (&entry == the_cause) {
      entry.record.blame = Blame::cause;
    } else {
      entry.record.blame = entry.record.after_stop ? Blame::stopped_by_us : Blame::victim;
    }
  }
}

/// The most blamed first, so that what is dropped, records and evidence, is what people need least.
void IncidentBuilder::drop_surplus(std::size_t keep) {
  set_blame();
  std::sort(entries_.begin(), entries_.end(), [this](const Entry& a, const Entry& b) {
    // Whoever may be late in a hang is kept, for the verdict comes only with the last node.
    const bool first_a = hung_at_ && may_be_late(a.record.rank);
    const bool first_b = hung_at_ && may_be_late(b.record.rank);
    return std::tuple(a.record.blame, !first_a, a.failed_at, a.record.rank) <
           std::tuple(b.record.blame, !first_b, b.failed_at, b.record.rank);
  });
  if (entries_.size() > keep) {
    dropped_ += static_cast<int>(entries_.size() - keep);
    entries_.resize(keep);
  }
  DDP_CHECK(entries_.size() <= keep, "surplus records are dropped");
  std::size_t bytes = 0;
  for (Entry& entry : entries_) {
    bytes += evidence_bytes(entry.record);
    if (bytes > kIncidentEvidenceBytesMax) {
      bytes -= evidence_bytes(entry.record);
      entry.record.error_file_json.clear();
      entry.record.stderr_tail.clear();
      entry.record.stack.clear();
    }
  }
  DDP_CHECK(bytes <= kIncidentEvidenceBytesMax, "the evidence of an incident is bounded");
}

/// A hang is settled before the blame is set: the late rank is the cause, although we ended it.
Incident IncidentBuilder::build() {
  Incident incident;
  incident.attempt = attempt_;
  incident.reason = reason();
  settle_hang();
  settle_leaver();
  incident.node_lost = cause() == nullptr && lost_.count > 0;
  incident.kind = kind();
  drop_surplus(kIncidentRecordsMax);
  incident.records.reserve(entries_.size());
  for (Entry& entry : entries_) {
    incident.records.push_back(std::move(entry.record));
  }
  entries_.clear();
  incident.records_dropped = dropped_;
  DDP_CHECK(incident.records.size() <= kIncidentRecordsMax, "an incident is bounded");
  DDP_CHECK(std::count_if(incident.records.begin(), incident.records.end(),
                          [](const auto& r) { return r.blame == Blame::cause; }) <= 1,
            "an incident has one cause at most");
  return incident;
}

void drop_old_evidence(Incident& incident) {
  for (FailureRecord& record : incident.records) {
    record.error_file_json.clear();
    if (record.blame != Blame::cause) {
      record.stderr_tail.clear();
      record.stack.clear();
    }
  }
}

}  // namespace ddprun
