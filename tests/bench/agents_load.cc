// Many simulated agents at one real coordinator, over TCP:
//   agents_load HOST PORT JOB_ID MIN MAX AGENTS RESTARTS HEARTBEAT_MS COORDINATOR_PID
// Each is a connection that says hello, beats, and answers every order at once as an agent does
// whose workers cost no time; all of them from one thread. When all are assigned, the worker of one
// of them "fails" RESTARTS times. Prints one line of JSON: how long it took from the first connect
// until all were assigned, and from each failure until all were assigned anew; what both processes
// spent on it; bytes to and from an agent; the coordinator's memory before and after.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/protocol/frame.h"
#include "rendezvous/protocol/message_codec.h"

namespace {

using namespace ddprun;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Of one agent; each leaves a record when it is stopped.
constexpr int kWorkers = 8;
/// Connections that are begun in one go before answers are read.
constexpr int kConnectsPerTurn = 32;
/// All agents beat once in a sixth of the heartbeat timeout, as where the coordinator needs a
/// quorum; a tenth of them at a time.
constexpr int kBeatsPerTimeout = 6;
constexpr int kBeatShares = 10;
/// Nothing takes longer than this.
constexpr std::chrono::seconds kPatience{60};
/// The kernel has some 28,000 ports for connections from one address to one port.
constexpr std::size_t kAgentsPerAddress = 20'000;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "agents_load: %s\n", what.c_str());
  std::exit(1);
}

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

double own_cpu_s() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

/// Of another process, as the kernel counts it: the time of its one thread on a processor, in
/// nanoseconds, and its resident pages.
struct Process {
  std::string folder;

  [[nodiscard]] double cpu_s() const {
    double nanoseconds = 0;
    std::ifstream(folder + "/schedstat") >> nanoseconds;
    return nanoseconds / 1e9;
  }
  [[nodiscard]] long rss_bytes() const {
    long size = 0;
    long resident = 0;
    std::ifstream(folder + "/statm") >> size >> resident;
    return resident * ::sysconf(_SC_PAGESIZE);
  }
};

struct Agent {
  Fd socket;
  std::unique_ptr<FrameReader> reader;
  std::size_t preamble_bytes = 0;  ///< that have come
  bool connected = false;
  bool accepted = false;
  std::optional<AttemptNumber> assigned;
  int base_rank = 0;
  std::int64_t stamp = 0;
  std::size_t bytes_in = 0;
  std::size_t bytes_out = 0;
};

struct Job {
  sockaddr_in address{};
  std::string id;
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  milliseconds heartbeat_timeout{};
};

class Crowd {
 public:
  Crowd(Job job, std::size_t agents)
      : job_(std::move(job)), epoll_(::epoll_create1(EPOLL_CLOEXEC)), agents_(agents) {}

  /// Connects all, and goes on until each has been assigned.
  void meet() {
    for (std::size_t i = 0; i < agents_.size(); ++i) {
      connect(i);
      if (i % kConnectsPerTurn == 0) {
        turn(milliseconds(0));
      }
    }
    until_assigned(AttemptNumber{0});
  }

  /// The worker of one agent fails; until each has been assigned the next attempt.
  void restart() {
    const AttemptNumber attempt = *agents_.front().assigned;
    message::Failed failed{attempt, {}};
    failed.record.rank = agents_.front().base_rank;
    failed.record.exit = {ExitStatus::Kind::exited, 1};
    say(0, failed);
    until_assigned(AttemptNumber{number(attempt) + 1});
  }

  /// Answers and beats for a while in which nothing else happens.
  void idle(milliseconds time) {
    const auto end = Clock::now() + time;
    while (Clock::now() < end) {
      turn(milliseconds(10));
    }
  }

  [[nodiscard]] std::size_t bytes(std::size_t Agent::*which) const {
    std::size_t all = 0;
    for (const Agent& one : agents_) {
      all += one.*which;
    }
    return all;
  }
  [[nodiscard]] std::size_t most_bytes_in() const {
    std::size_t most = 0;
    for (const Agent& one : agents_) {
      most = std::max(most, one.bytes_in);
    }
    return most;
  }
  /// Half of the agents were told no more than this.
  [[nodiscard]] std::size_t median_bytes_in() const {
    std::vector<std::size_t> all;
    for (const Agent& one : agents_) {
      all.push_back(one.bytes_in);
    }
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2),
                     all.end());
    return all[all.size() / 2];
  }

 private:
  void connect(std::size_t i) {
    Agent& agent = agents_[i];
    agent.socket = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!agent.socket) {
      fail("no descriptor for another agent");
    }
    const int one = 1;
    ::setsockopt(agent.socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    agent.reader = std::make_unique<FrameReader>(kCoordinatorFrameBytesMax);
    if (agents_.size() > kAgentsPerAddress) {  // then 127.0.0.1, 127.0.0.2, and so on
      sockaddr_in from{};
      from.sin_family = AF_INET;
      from.sin_addr.s_addr =
          htonl(INADDR_LOOPBACK + static_cast<std::uint32_t>(i / kAgentsPerAddress));
      ::setsockopt(agent.socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
      if (::bind(agent.socket.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0) {
        fail("cannot connect from another loopback address");
      }
    }
    const auto* where = reinterpret_cast<const sockaddr*>(&job_.address);
    if (::connect(agent.socket.get(), where, sizeof job_.address) != 0 && errno != EINPROGRESS) {
      fail("cannot connect");
    }
    epoll_event event{EPOLLOUT, {.u64 = i}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, agent.socket.get(), &event);
  }

  void send(std::size_t i, const std::string& bytes) {
    Agent& agent = agents_[i];
    if (::send(agent.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(bytes.size())) {
      fail("the coordinator does not take a message");
    }
    agent.bytes_out += bytes.size();
  }

  void say(std::size_t i, const message::Message& said) { send(i, encode(said)); }

  void on_connected(std::size_t i) {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(agents_[i].socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      fail("an agent cannot connect");
    }
    agents_[i].connected = true;
    epoll_event event{EPOLLIN, {.u64 = i}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, agents_[i].socket.get(), &event);
    NodeDescription node;
    char name[64];
    std::snprintf(name, sizeof name, "node%05zu.cluster.example", i);
    node.host_name = name;
    node.role = "default";
    node.local_world_size = kWorkers;
    node.job_id = job_.id;
    node.min_nodes = job_.min_nodes;
    node.max_nodes = job_.max_nodes;
    node.max_restarts = job_.max_restarts;
    node.program = "sleep 1000";
    node.voter = VoterId{(std::uint64_t{1} << 32) + i};
    const std::string low = std::to_string(i / 250 % 250) + "." + std::to_string(1 + i % 250);
    node.addresses = {"10.1." + low, "10.2." + low, "fd00:1234:5678::" + std::to_string(i)};
    node.port = 40'000;
    send(i, preamble() + encode(message::Hello{std::move(node)}));
  }

  void beat(std::size_t i) {
    if (agents_[i].accepted) {
      say(i, message::Beat{job_.heartbeat_timeout, agents_[i].stamp, {}});
    }
  }

  void on_readable(std::size_t i) {
    Agent& agent = agents_[i];
    const ssize_t size = ::recv(agent.socket.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (size <= 0) {
      fail("the coordinator closed a connection");
    }
    agent.bytes_in += static_cast<std::size_t>(size);
    std::string_view bytes(buffer_.data(), static_cast<std::size_t>(size));
    const std::size_t rest = std::min(kPreambleBytes - agent.preamble_bytes, bytes.size());
    agent.preamble_bytes += rest;
    bytes.remove_prefix(rest);
    const bool sound = agent.reader->feed(bytes, [&](std::uint8_t type, std::string_view payload) {
      auto said = decode(type, payload);
      if (!said) {
        fail("the coordinator said what cannot be read: " + said.error().what);
      }
      std::visit([&](auto& order) { obey(i, order); }, *said);
      return true;
    });
    if (!sound) {
      fail("the coordinator sent an impossible frame");
    }
  }

  void obey(std::size_t i, const message::Accepted& order) {
    agents_[i].accepted = true;
    agents_[i].stamp = order.stamp;
    beat(i);
  }
  void obey(std::size_t i, const message::VoterState& order) {
    agents_[i].stamp = order.stamp;
    say(i, message::StateKept{order.replicated.configuration.number, order.stamp});
  }
  void obey(std::size_t i, const message::Assigned& order) {
    agents_[i].assigned = order.world.attempt;
    agents_[i].base_rank = order.world.base_rank;
    say(i, message::Started{order.world.attempt});
    if (order.world.attempt == awaited_) {
      ++of_awaited_;
    }
  }
  void obey(std::size_t i, const message::Stop& order) {
    message::Stopped stopped;
    stopped.attempt = order.attempt;
    for (int local_rank = 0; local_rank < kWorkers; ++local_rank) {
      FailureRecord record;
      record.local_rank = local_rank;
      record.rank = agents_[i].base_rank + local_rank;
      record.pid = 1'000 + local_rank;
      record.exit = {ExitStatus::Kind::signalled, 15};
      record.after_stop = true;
      record.message = "Signal 15 (SIGTERM) received by PID " + std::to_string(record.pid);
      stopped.records.push_back(std::move(record));
    }
    say(i, stopped);
  }
  void obey(std::size_t i, const message::Beat& order) {
    agents_[i].stamp = order.stamp;
    if (order.quorum_age) {
      say(i, message::Echo{order.stamp});
    }
  }
  void obey(std::size_t, const message::Rejected& order) { fail("rejected: " + order.why); }
  void obey(std::size_t, const message::Finish&) { fail("the job ended"); }
  template <class Other>
  void obey(std::size_t, const Other&) {}  // for people and for standbys

  void beat_some() {
    if (Clock::now() < next_beat_) {
      return;
    }
    next_beat_ = Clock::now() + job_.heartbeat_timeout / kBeatsPerTimeout / kBeatShares;
    share_ = (share_ + 1) % kBeatShares;
    for (std::size_t i = share_; i < agents_.size(); i += kBeatShares) {
      beat(i);
    }
  }

  void turn(milliseconds wait) {
    std::array<epoll_event, 512> events;
    const int ready =
        ::epoll_wait(epoll_.get(), events.data(), events.size(), static_cast<int>(wait.count()));
    for (int i = 0; i < ready; ++i) {
      const std::size_t who = events[static_cast<std::size_t>(i)].data.u64;
      if (agents_[who].connected) {
        on_readable(who);
      } else {
        on_connected(who);
      }
    }
    beat_some();
  }

  void until_assigned(AttemptNumber attempt) {
    awaited_ = attempt;
    of_awaited_ = static_cast<std::size_t>(std::count_if(
        agents_.begin(), agents_.end(), [&](const Agent& one) { return one.assigned == attempt; }));
    const auto deadline = Clock::now() + kPatience;
    while (of_awaited_ < agents_.size()) {
      if (Clock::now() > deadline) {
        fail("only " + std::to_string(of_awaited_) + " of " + std::to_string(agents_.size()) +
             " agents were assigned attempt " + std::to_string(number(attempt)));
      }
      turn(milliseconds(10));
    }
  }

  Job job_;
  Fd epoll_;
  std::vector<Agent> agents_;
  std::array<char, 64 * 1024> buffer_{};
  std::optional<AttemptNumber> awaited_;
  std::size_t of_awaited_ = 0;
  Clock::time_point next_beat_ = Clock::now();
  std::size_t share_ = 0;
};

/// Wall time, and what both processes spent in it.
struct Cost {
  double wall_s = 0;
  double coordinator_cpu_s = 0;
  double agents_cpu_s = 0;
};

template <class Action>
Cost cost_of(const Process& coordinator, Action action) {
  const double before = coordinator.cpu_s();
  const double own_before = own_cpu_s();
  const auto begin = Clock::now();
  action();
  const auto end = Clock::now();
  return {seconds(end - begin), coordinator.cpu_s() - before, own_cpu_s() - own_before};
}

std::string json(const Cost& cost) {
  std::ostringstream text;
  text << "{\"wall_s\": " << cost.wall_s << ", \"coordinator_cpu_s\": " << cost.coordinator_cpu_s
       << ", \"agents_cpu_s\": " << cost.agents_cpu_s << "}";
  return text.str();
}

void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int count, char** words) {
  if (count != 11) {
    fail("HOST PORT JOB_ID MIN MAX AGENTS RESTARTS HEARTBEAT_MS COORDINATOR_PID IDLE_MS");
  }
  raise_descriptor_limit();
  Job job;
  job.address.sin_family = AF_INET;
  job.address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(words[2])));
  if (::inet_pton(AF_INET, words[1], &job.address.sin_addr) != 1) {
    fail("HOST is no IPv4 address");
  }
  job.id = words[3];
  job.min_nodes = std::atoi(words[4]);
  job.max_nodes = std::atoi(words[5]);
  job.max_restarts = std::atoi(words[7]);
  job.heartbeat_timeout = milliseconds(std::atoi(words[8]));
  const auto agents = static_cast<std::size_t>(std::atoi(words[6]));
  const Process coordinator{std::string("/proc/") + words[9]};
  const milliseconds idle_time(std::atoi(words[10]));

  Crowd crowd(job, agents);
  const long rss_before = coordinator.rss_bytes();
  const Cost meeting = cost_of(coordinator, [&] { crowd.meet(); });
  const std::size_t bytes_in = crowd.bytes(&Agent::bytes_in);
  const std::size_t bytes_out = crowd.bytes(&Agent::bytes_out);
  const std::size_t median_in = crowd.median_bytes_in();
  const std::size_t most_in = crowd.most_bytes_in();
  // Once, so that what follows is no part of the meeting; and again, to see what beats alone cost.
  crowd.idle(idle_time);
  const long rss_met = coordinator.rss_bytes();
  const Cost idle = cost_of(coordinator, [&] { crowd.idle(idle_time); });
  std::string restarts;
  for (int i = 0; i < job.max_restarts; ++i) {
    crowd.idle(milliseconds(100));
    restarts += (i == 0 ? "" : ", ") + json(cost_of(coordinator, [&] { crowd.restart(); }));
  }
  std::printf(
      "{\"agents\": %zu, \"meeting\": %s, \"idle\": %s, \"restarts\": [%s], "
      "\"rss_before\": %ld, \"rss_met\": %ld, \"rss_end\": %ld, \"bytes_in\": %zu, "
      "\"bytes_out\": %zu, \"median_bytes_in\": %zu, \"most_bytes_in\": %zu}\n",
      agents, json(meeting).c_str(), json(idle).c_str(), restarts.c_str(), rss_before, rss_met,
      coordinator.rss_bytes(), bytes_in, bytes_out, median_in, most_in);
  return 0;
}
