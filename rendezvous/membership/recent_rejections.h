// RecentRejections: what a gathering remembers of nodes that are not here: the refused and the
// lost. Pure and bounded: whoever knocks a thousand times with the same mistake is one row.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "rendezvous/membership/event.h"
#include "rendezvous/membership/rendezvous_status.h"

namespace ddprun {

class RecentRejections {
 public:
  void refused(const std::string& host_name, const std::string& address, const std::string& why,
               Instant now);
  void lost(const std::string& host_name, const std::string& address, const std::string& why,
            Instant now);
  /// A node is (back) here: its rows go.
  void came(const std::string& host_name, const std::string& address);
  /// An attempt has been assigned: nobody is waited for any more.
  void clear();

  /// Puts the rows into the table, the newest first.
  void fill(RendezvousStatus& table, Instant now) const;

 private:
  struct Row {
    std::string host_name;
    std::string address;
    std::string why;
    int times = 0;
    Instant at{};
  };
  struct Rows {
    std::deque<Row> newest_first;
    int more = 0;  ///< forgotten ones
  };
  static void add(Rows& rows, Row row);
  static int copy(const Rows& rows, Instant now, std::vector<NodeGone>& to);

  Rows refused_;
  Rows lost_;
};

}  // namespace ddprun
