// AbsentNodes: what is known of nodes that came and are not part of the job: the refused and the
// lost. Pure and bounded.
//
// People read of them in the waiting table and in the reason of a gathering that failed. A node of
// this job that was refused for good also changes the gathering: nobody waits for it. Such nodes
// count once for each host and address, for a supervisor may start one again and again.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "rendezvous/membership/admission.h"
#include "rendezvous/membership/event.h"
#include "rendezvous/membership/job_ending.h"
#include "rendezvous/membership/recent_rejections.h"
#include "rendezvous/membership/rendezvous_status.h"

namespace ddprun {

struct HostAndAddress {
  std::string host_name;  ///< empty when it never said
  std::string address;    ///< empty for the coordinator's own node
  friend auto operator<=>(const HostAndAddress&, const HostAndAddress&) = default;
};

/// A node of this job that was refused for good while the job gathers.
struct RefusedNode {
  Refusal refusal;
  Verdict verdict;  ///< of the job, where it cannot do without that node
};

class AbsentNodes {
 public:
  /// At most `max_nodes` are counted as refused for good.
  explicit AbsentNodes(int max_nodes);

  /// For people: it was turned away, or was here and is lost.
  void refused(const HostAndAddress& who, const std::string& why, Instant now);
  void lost(const HostAndAddress& who, const std::string& why, Instant at);
  /// Somebody connected, and may become one of these or a node.
  void called(const std::string& address, Instant now) { last_caller_ = {address, now}; }
  /// It is part of the job now: it is not absent any more.
  void came(const HostAndAddress& who);
  /// A gathering begins: who was refused while nobody was waited for does not count.
  void gathering_begins() { for_good_.clear(); }
  /// A world was handed out: nobody is waited for.
  void world_begins();

  /// This node is not let in, but is connected until its refusal is written.
  void keep_out(NodeId id, HostAndAddress who);
  /// Its refusal is sent, or its connection is gone. None: it was not kept out.
  std::optional<HostAndAddress> take_kept_out(NodeId id);

  /// Whether one more can be counted as refused for good.
  [[nodiscard]] bool has_room() const;
  /// While has_room(). True: it was not counted before.
  bool refuse_for_good(HostAndAddress who, RefusedNode refused);
  [[nodiscard]] std::size_t refused_for_good() const { return for_good_.size(); }
  /// The job cannot have its nodes, because some were refused; at least one was.
  [[nodiscard]] JobEnding ending(int min_nodes) const;

  /// Puts the rows of the refused and the lost into the table, the newest first.
  void fill(RendezvousStatus& table, Instant now) const { recent_.fill(table, now); }
  /// Who connected last and became no node, and when; an empty address: nobody.
  struct Caller {
    std::string address;
    Instant at{};
  };
  [[nodiscard]] const Caller& last_caller() const { return last_caller_; }
  /// Host name of the newest lost node, also of an attempt before; empty: none was lost.
  [[nodiscard]] const std::string& last_lost() const { return last_lost_; }

 private:
  std::size_t max_nodes_;
  RecentRejections recent_;
  std::map<HostAndAddress, RefusedNode> for_good_;  ///< in this gathering
  std::map<NodeId, HostAndAddress> kept_out_;
  std::string last_lost_;
  Caller last_caller_;
};

}  // namespace ddprun
