#include "rendezvous/membership/recent_rejections.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {

void RecentRejections::refused(const std::string& host_name, const std::string& address,
                               const std::string& why, Instant now) {
  add(refused_, {host_name, address, why, 1, now});
}

void RecentRejections::lost(const std::string& host_name, const std::string& address,
                            const std::string& why, Instant now) {
  add(lost_, {host_name, address, why, 1, now});
}

/// Equal host and address: a node that was rejected for an option comes again from the same place.
void RecentRejections::came(const std::string& host_name, const std::string& address) {
  const auto same = [&](const Row& row) {
    return row.host_name == host_name && row.address == address;
  };
  std::erase_if(refused_.newest_first, same);
  std::erase_if(lost_.newest_first, same);
}

void RecentRejections::clear() {
  refused_ = {};
  lost_ = {};
}

/// A supervisor may start a wrong command every second. Its row moves to the front and counts, and
/// so does not push the rows of other nodes out.
void RecentRejections::add(Rows& rows, Row row) {
  auto& list = rows.newest_first;
  const auto key = [](const Row& r) { return std::tie(r.host_name, r.address, r.why); };
  const auto same =
      std::find_if(list.begin(), list.end(), [&](const Row& r) { return key(r) == key(row); });
  if (same != list.end()) {
    row.times += same->times;
    DDP_CHECK(row.times > same->times, "each time counts");
    list.erase(same);
  }
  list.push_front(std::move(row));
  if (list.size() > kWaitingRowsMax) {
    list.pop_back();
    ++rows.more;
  }
  DDP_CHECK(list.size() <= kWaitingRowsMax, "rows are bounded");
}

/// Returns how many are not among the rows.
int RecentRejections::copy(const Rows& rows, Instant now, std::vector<NodeGone>& to) {
  for (const Row& row : rows.newest_first) {
    to.push_back({row.host_name, row.address, row.why, row.times, now - row.at});
  }
  return rows.more;
}

void RecentRejections::fill(RendezvousStatus& table, Instant now) const {
  table.refused_more = copy(refused_, now, table.refused);
  table.lost_more = copy(lost_, now, table.lost);
}

}  // namespace ddprun
