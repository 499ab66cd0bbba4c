#include "worker_runtime/bootstrap/peer_monitor.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "worker_runtime/bootstrap/peer_monitor_socket.h"

namespace ddp {
namespace {

using ddprun::Error;
using ddprun::Fd;
using ddprun::Result;
using std::chrono::steady_clock;
using Type = LifelineFrame::Type;

/// What others do after rank 0 should have spoken: rank 0's own deadline passes first, and its
/// verdict, which names the missing, has this long to arrive.
constexpr std::chrono::seconds kVerdictPatience{3};
/// No event shows when a port begins to be listened at.
constexpr std::chrono::milliseconds kRetryPause{20};
/// A frame to a live peer goes into its socket buffer at once; a stopped one must not hold us up.
constexpr std::chrono::milliseconds kTellPatience{100};

Error not_in_time(std::string what) {
  return {std::move(what), "", "see that all ranks are started and can reach rank 0"};
}

std::string list_of(const std::vector<int>& ranks) {
  // A long list says no more than its beginning.
  constexpr std::size_t kNamed = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return ranks.size() > kNamed ? fmt::format("{} and {} more", text, ranks.size() - kNamed) : text;
}

}  // namespace

Result<std::unique_ptr<PeerMonitor>> PeerMonitor::listen(int world_size, std::uint16_t port) {
  Result<Fd> listener = listen_anywhere(port);
  if (!listener) {
    return listener.error();
  }
  std::unique_ptr<PeerMonitor> lifeline(new PeerMonitor(0, world_size));
  lifeline->listener_ = std::move(*listener);
  lifeline->port_ = ddprun::net::local_end(lifeline->listener_.get()).port();
  return lifeline;
}

Result<void> PeerMonitor::gather(Deadline deadline) {
  std::vector<Link> strangers;  // connected, not yet greeted
  const auto expected = static_cast<std::size_t>(world_size_ - 1);
  data_links_.resize(static_cast<std::size_t>(world_size_));
  const auto all_linked = [this] {
    return std::all_of(data_links_.begin() + 1, data_links_.end(),
                       [](const Fd& fd) { return static_cast<bool>(fd); });
  };
  while (links_.size() < expected || !all_linked()) {
    Result<void> step = accept_hello(strangers, deadline);
    if (!step) {
      tell_all({Type::lost, -1, step.error().sentence()}, -1);
      return step;
    }
  }
  // All have come: the kernel refuses any other from here on.
  listener_.reset();
  settle_addresses();
  for (Link& link : links_) {
    const LifelineFrame welcome{Type::welcome, link.rank,
                                addresses_[static_cast<std::size_t>(link.rank)]};
    send_all(link.fd.get(), encode(welcome), deadline);
  }
  return {};
}

/// Waits for one thing to happen: a connection, a greeting, the loss of a rank that had come.
Result<void> PeerMonitor::accept_hello(std::vector<Link>& strangers, Deadline deadline) {
  std::vector<pollfd> items{{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
  for (const auto* group : {&strangers, &links_}) {
    for (const Link& link : *group) {
      items.push_back({.fd = link.fd.get(), .events = POLLIN, .revents = 0});
    }
  }
  const int count = ::poll(items.data(), items.size(), ddprun::net::milliseconds_left(deadline));
  if (count == 0) {
    std::vector<int> missing;
    for (int rank = 1; rank < world_size_; ++rank) {
      if (std::none_of(links_.begin(), links_.end(),
                       [rank](const Link& link) { return link.rank == rank; })) {
        missing.push_back(rank);
      }
    }
    return not_in_time(list_of(missing) + " did not arrive in time");
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    // A rank that has greeted says nothing more yet: readable means gone.
    if (items[1 + strangers.size() + i].revents != 0) {
      return Error(fmt::format("rank {} ended while the ranks were gathering", links_[i].rank), "",
                   "");
    }
  }
  for (std::size_t i = strangers.size(); i-- > 0;) {
    if (items[1 + i].revents == 0) {
      continue;
    }
    Link link = std::move(strangers[i]);
    strangers.erase(strangers.begin() + static_cast<std::ptrdiff_t>(i));
    bool broken = !receive_some(link.fd.get(), link.unread);
    const std::optional<LifelineFrame> hello = take_frame(link.unread, broken);
    const bool ours = hello && (hello->type == Type::hello || hello->type == Type::data) &&
                      hello->rank > 0 && hello->text.starts_with(kLifelineGreeting);
    if (ours) {
      Result<void> taken = greeted(*hello, std::move(link));
      if (!taken) {
        return taken;
      }
    } else if (!broken && !hello) {
      strangers.push_back(std::move(link));
    }  // else: not one of ours; closed here
  }
  if (items[0].revents != 0) {
    Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      tune(fd.get());
      strangers.push_back({.rank = -1, .fd = std::move(fd), .unread = {}});
    }
  }
  return {};
}

Result<void> PeerMonitor::greeted(const LifelineFrame& hello, Link link) {
  const std::string world = hello.text.substr(kLifelineGreeting.size());
  if (world != std::to_string(world_size_)) {
    return Error(fmt::format("rank {} believes in a world of {}, rank 0 in one of {}", hello.rank,
                             world, world_size_),
                 "WORLD_SIZE", "give all ranks the same");
  }
  if (hello.rank >= world_size_) {
    return {};  // not one of ours; closed here
  }
  Fd& data_link = data_links_[static_cast<std::size_t>(hello.rank)];
  const bool known = hello.type == Type::data
                         ? static_cast<bool>(data_link)
                         : std::any_of(links_.begin(), links_.end(), [&hello](const Link& other) {
                             return other.rank == hello.rank;
                           });
  if (known) {
    return Error("two processes say that they are rank " + std::to_string(hello.rank), "RANK",
                 "give each a rank of its own");
  }
  if (hello.type == Type::data) {
    data_link = std::move(link.fd);
  } else {
    link.rank = hello.rank;
    links_.push_back(std::move(link));
  }
  return {};
}

/// A rank on another host is reached by the address it came from. A rank on this host may have come
/// by the loopback: others reach it, and us, by the address at which they found us.
void PeerMonitor::settle_addresses() {
  std::sort(links_.begin(), links_.end(),
            [](const Link& a, const Link& b) { return a.rank < b.rank; });
  addresses_.assign(static_cast<std::size_t>(world_size_), "");
  std::string ours = "127.0.0.1";
  for (const Link& link : links_) {
    const std::string peer = ddprun::net::far_end(link.fd.get()).host();
    const std::string own = ddprun::net::local_end(link.fd.get()).host();
    if (!ddprun::net::is_loopback(peer) && peer != own) {
      addresses_[static_cast<std::size_t>(link.rank)] = peer;
      if (ddprun::net::is_loopback(ours)) {
        ours = own;
      }
    }
  }
  for (std::string& address : addresses_) {
    if (address.empty()) {
      address = ours;
    }
  }
  address_ = addresses_[0];
}

Result<std::unique_ptr<PeerMonitor>> PeerMonitor::join(const std::string& host, std::uint16_t port,
                                                       int rank, int world_size,
                                                       Deadline deadline) {
  Result<Fd> fd = connect_to(host, port, deadline);
  while (!fd && steady_clock::now() + kRetryPause < deadline) {
    std::this_thread::sleep_for(kRetryPause);  // allowed: no event tells of a port
    fd = connect_to(host, port, deadline);
  }
  if (!fd) {
    return Error("cannot reach rank 0: " + fd.error().what, fd.error().where, fd.error().todo);
  }
  std::unique_ptr<PeerMonitor> lifeline(new PeerMonitor(rank, world_size));
  lifeline->links_.push_back({.rank = 0, .fd = std::move(*fd), .unread = {}});
  Link& link = lifeline->links_.front();
  LifelineFrame hello{Type::hello, rank,
                      std::string(kLifelineGreeting) + std::to_string(world_size)};
  send_all(link.fd.get(), encode(hello), deadline);
  // When this fails rank 0 has given up, and says on the first connection why.
  if (Result<Fd> data = connect_to(host, port, deadline)) {
    hello.type = Type::data;
    send_all(data->get(), encode(hello), deadline);
    lifeline->data_links_.push_back(std::move(*data));
  }
  const Result<LifelineFrame> welcome =
      lifeline->read_frame(link, Type::welcome, deadline + kVerdictPatience);
  if (!welcome) {
    return welcome.error();
  }
  if (lifeline->data_links_.empty()) {
    return Error("rank 0 took one connection and refused the second", "", "");
  }
  lifeline->address_ = welcome->text;
  return lifeline;
}

Result<std::vector<std::string>> PeerMonitor::exchange(const std::vector<std::string>& blobs,
                                                       Deadline deadline) {
  const auto ranks = static_cast<std::size_t>(world_size_);
  if (!is_hub()) {
    Link& link = links_.front();
    send_all(link.fd.get(), encode({Type::addresses, rank_, pack_blobs(blobs)}), deadline);
    const Result<LifelineFrame> peers = read_frame(link, Type::peers, deadline + kVerdictPatience);
    if (!peers) {
      return peers.error();
    }
    auto result = unpack_blobs(peers->text);
    if (!result || result->size() != ranks) {
      return Error("rank 0 sent a malformed list of addresses", "", "");
    }
    return *std::move(result);
  }
  std::vector<std::vector<std::string>> table(ranks);  // [from][to]
  table[0] = blobs;
  for (Link& link : links_) {
    const Result<LifelineFrame> frame = read_frame(link, Type::addresses, deadline);
    auto row = frame ? unpack_blobs(frame->text) : std::nullopt;
    if (!row || row->size() != ranks) {
      Error error = frame
                        ? Error(fmt::format("rank {} sent malformed addresses", link.rank), "", "")
                        : frame.error();
      tell_all({Type::lost, link.rank, error.sentence()}, -1);
      return error;
    }
    table[static_cast<std::size_t>(link.rank)] = *std::move(row);
  }
  const auto column = [&table, ranks](int to) {
    std::vector<std::string> result;
    for (std::size_t from = 0; from < ranks; ++from) {
      result.push_back(table[from][static_cast<std::size_t>(to)]);
    }
    return result;
  };
  for (Link& link : links_) {
    send_all(link.fd.get(), encode({Type::peers, 0, pack_blobs(column(link.rank))}), deadline);
  }
  return column(0);
}

Result<LifelineFrame> PeerMonitor::read_frame(Link& link, Type wanted, Deadline deadline) {
  const std::string who = "rank " + std::to_string(link.rank);
  for (bool open = true;;) {
    bool broken = false;
    std::optional<LifelineFrame> frame = take_frame(link.unread, broken);
    if (frame && frame->type == wanted) {
      return *std::move(frame);
    }
    if (frame && frame->type == Type::lost) {
      return Error(frame->text, "", "");
    }
    if (frame || broken) {
      return Error(who + " said something unexpected", "",
                   "see that all ranks run the same version");
    }
    if (!open) {
      return Error(who + " ended while the ranks were gathering", "", "");
    }
    if (!ddprun::net::wait_ready(link.fd.get(), POLLIN, deadline)) {
      return not_in_time(who + " was silent for too long");
    }
    open = receive_some(link.fd.get(), link.unread);
  }
}

void PeerMonitor::watch() {
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  thread_ = std::thread([this] { run(); });
}

void PeerMonitor::run() {
  while (!stopping_) {
    std::vector<pollfd> items{{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    for (const Link& link : links_) {
      items.push_back({.fd = link.fd.get(), .events = POLLIN, .revents = 0});  // -1 is skipped
    }
    if (::poll(items.data(), items.size(), -1) < 0) {
      continue;
    }
    for (std::size_t i = 0; i < links_.size(); ++i) {
      if (items[i + 1].revents != 0) {
        readable(links_[i]);
      }
    }
  }
}

void PeerMonitor::readable(Link& link) {
  bool broken = false;
  const bool open = receive_some(link.fd.get(), link.unread);
  while (const std::optional<LifelineFrame> frame = take_frame(link.unread, broken)) {
    handle(link, *frame);
  }
  if (open && !broken) {
    return;
  }
  bool in_order = false;
  {
    const std::lock_guard lock(mutex_);
    link.fd.reset();
    in_order = left_.contains(link.rank);
  }
  if (!in_order) {
    declare({link.rank, "its process ended or its connection broke"}, link.rank);
  }
}

void PeerMonitor::handle(Link& link, const LifelineFrame& frame) {
  if (frame.type == Type::lost) {
    declare({frame.rank, frame.text}, link.rank);
  } else if (frame.type == Type::left) {
    mark_left(frame.rank);
    if (is_hub()) {
      tell_all({Type::left, frame.rank}, frame.rank);
    }
  } else if (frame.type == Type::all_left) {
    const std::lock_guard lock(mutex_);
    all_left_ = true;
    changed_.notify_all();
  }
}

void PeerMonitor::mark_left(int rank) {
  bool all = false;
  {
    const std::lock_guard lock(mutex_);
    left_.insert(rank);
    // Rank 0 has its own name in the set, too.
    all = is_hub() && left_.size() == static_cast<std::size_t>(world_size_);
    all_left_ = all_left_ || all;
    changed_.notify_all();
  }
  if (all) {
    tell_all({Type::all_left}, -1);
  }
}

/// The first loss counts: what follows are its consequences.
void PeerMonitor::declare(const PeerLoss& loss, int told_by) {
  {
    const std::lock_guard lock(mutex_);
    if (loss_) {
      return;
    }
    loss_ = loss;
    changed_.notify_all();
  }
  if (is_hub() || told_by == rank_) {
    tell_all({Type::lost, loss.rank, loss.reason}, told_by);
  }
  const std::lock_guard lock(subscriber_mutex_);
  for (const auto& on_loss : std::exchange(on_loss_, {})) {
    on_loss();
  }
}

void PeerMonitor::tell_all(const LifelineFrame& frame, int except) {
  const std::string bytes = encode(frame);
  const std::lock_guard lock(mutex_);
  for (const Link& link : links_) {
    if (link.rank != except && link.fd) {
      send_all(link.fd.get(), bytes, steady_clock::now() + kTellPatience);
    }
  }
}

void PeerMonitor::subscribe(std::function<void()> on_loss) {
  const std::lock_guard subscriber_lock(subscriber_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (!loss_) {
      on_loss_.push_back(std::move(on_loss));
      return;
    }
  }
  on_loss();
}

void PeerMonitor::unsubscribe() {
  const std::lock_guard lock(subscriber_mutex_);
  on_loss_.clear();
}

std::optional<PeerLoss> PeerMonitor::loss(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [this] { return loss_.has_value() || !left_.empty(); });
  if (loss_) {
    return loss_;
  }
  if (left_.size() == 1) {
    return PeerLoss{*left_.begin(), "it left the group in order while others still needed it"};
  }
  return std::nullopt;
}

void PeerMonitor::report(const PeerLoss& loss) {
  declare(loss, rank_);
}

void PeerMonitor::leave(std::chrono::milliseconds patience) {
  tell_all({Type::left, rank_}, -1);
  mark_left(rank_);
  std::unique_lock lock(mutex_);
  // A rank that closes early breaks the last operation of a slower one.
  changed_.wait_for(lock, patience, [this] { return all_left_ || loss_.has_value(); });
}

PeerMonitor::~PeerMonitor() {
  if (thread_.joinable()) {
    stopping_ = true;
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof(one));
    thread_.join();
  }
}

}  // namespace ddp
