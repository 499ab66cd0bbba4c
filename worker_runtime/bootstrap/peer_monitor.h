// PeerMonitor: one TCP connection from every rank to rank 0, on which a rank's death is seen at
// once and told to all with the right name. Gloo alone tells only the neighbours, and not who it
// was; a rank in the middle of a computation would learn it at its next operation.
//
// It also brings the ranks together: rank 0 hears from everybody before anybody connects to
// anybody, and hands round the transport addresses. So a rank that never comes is named, and the
// addresses are those by which the ranks really see each other: no host name is resolved.
//
// Each rank opens a second connection with the first, for the star, so that small tensors need no
// port of their own and nothing of ours reads them.
//
// A closed connection without a word is a lost rank. A machine that is gone without closing is
// noticed by TCP keepalive after some ten seconds. Without rank 0 nobody is left to tell, so its
// end is everybody's loss.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "worker_runtime/bootstrap/peer_monitor_frame.h"
#include "worker_runtime/bootstrap/peer_watch.h"

namespace ddp {

class PeerMonitor : public PeerWatch {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Rank 0: listens at `port` (0: any free one) of all addresses. Then publish port(), then
  /// gather().
  static ddprun::Result<std::unique_ptr<PeerMonitor>> listen(int world_size, std::uint16_t port);
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Rank 0: waits until every other rank has come. An Error names those that did not; those that
  /// did are told the same.
  ddprun::Result<void> gather(Deadline deadline);
  /// Other ranks: connects to rank 0 and waits until it has gathered all. While nobody listens
  /// there it tries again: without a store, rank 0 may come later than the others.
  static ddprun::Result<std::unique_ptr<PeerMonitor>> join(const std::string& host,
                                                           std::uint16_t port, int rank,
                                                           int world_size, Deadline deadline);
  /// Where other ranks can reach this one: a numeric address.
  [[nodiscard]] const std::string& address() const { return address_; }
  /// Gives one blob for each rank, gets one from each.
  ddprun::Result<std::vector<std::string>> exchange(const std::vector<std::string>& blobs,
                                                    Deadline deadline);
  /// The second connections, indexed by the rank at the other end: rank 0 has one to every other
  /// rank, they have one to rank 0. Once, after gather() or join().
  [[nodiscard]] std::vector<ddprun::Fd> take_data_links() { return std::move(data_links_); }
  /// Starts the thread that watches. Before it, nothing below may be called.
  void watch();

  void subscribe(std::function<void()> on_loss) override;
  void unsubscribe() override;
  std::optional<PeerLoss> loss(std::chrono::milliseconds patience) override;
  void report(const PeerLoss& loss) override;

  /// Leaves in order: tells the others, and keeps the connection until all have left, for at most
  /// `patience`: so nobody loses a transport under its last operation.
  void leave(std::chrono::milliseconds patience);

  /// Closes the connections. Without leave() before, that is a loss to the others.
  ~PeerMonitor() override;

 private:
  struct Link {
    int rank = -1;  ///< the other end's; -1 before it has said so
    ddprun::Fd fd;
    std::string unread;
  };

  explicit PeerMonitor(int rank, int world_size) : rank_(rank), world_size_(world_size) {}
  bool is_hub() const { return rank_ == 0; }
  ddprun::Result<void> accept_hello(std::vector<Link>& strangers, Deadline deadline);
  ddprun::Result<void> greeted(const LifelineFrame& hello, Link link);
  void settle_addresses();
  ddprun::Result<LifelineFrame> read_frame(Link& link, LifelineFrame::Type wanted,
                                           Deadline deadline);
  void tell_all(const LifelineFrame& frame, int except);
  void run();
  void readable(Link& link);
  void handle(Link& link, const LifelineFrame& frame);
  void declare(const PeerLoss& loss, int told_by);
  void mark_left(int rank);

  const int rank_;
  const int world_size_;
  std::uint16_t port_ = 0;
  std::string address_;
  std::vector<std::string> addresses_;  // hub: of every rank
  ddprun::Fd listener_;
  ddprun::Fd wake_;
  std::vector<Link> links_;  // hub: one for each other rank; else one, to rank 0
  std::vector<ddprun::Fd> data_links_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};

  std::mutex mutex_;  // guards what follows, and sending
  std::condition_variable changed_;
  std::optional<PeerLoss> loss_;
  std::set<int> left_;
  bool all_left_ = false;
  std::mutex subscriber_mutex_;  // held while subscribers run
  std::vector<std::function<void()>> on_loss_;
};

}  // namespace ddp
