// store_bench [ROUNDS OPERATIONS]: set+get round trips per second of one StoreClient against our
// StoreServer on loopback, beside a bare echo server over the same socket code (wait for readiness,
// recv, send): what the protocol and the key space cost on top of the sockets. Prints one line of
// JSON; scripts/bench reads it.
//
// A set is one write without an answer; a get of a key that exists is one round trip. The echo
// client writes and reads the same numbers of bytes in the same steps.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/store/store_client.h"
#include "rendezvous/store/store_protocol.h"
#include "rendezvous/store/store_server.h"

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace ddprun;
namespace proto = ddprun::store_protocol;

constexpr char kKey[] = "epoch_17/rank_3";
const std::string kValue(64, 'v');

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "store_bench: %s\n", what.c_str());
  std::exit(1);
}

/// Answers each request of `request_bytes[i]` with `reply_bytes[i]`, in a cycle.
struct Echo : std::enable_shared_from_this<Echo> {
  struct Step {
    std::size_t request_bytes;
    std::size_t reply_bytes;
  };
  Echo(tcp::socket s, std::vector<Step> all) : socket(std::move(s)), steps(std::move(all)) {}
  void read() {
    socket.async_wait(tcp::socket::wait_read,
                      [self = shared_from_this()](boost::system::error_code error) {
                        if (!error) {
                          self->on_readable();
                        }
                      });
  }
  void on_readable() {
    const ssize_t got = ::recv(socket.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got == 0) {
      return;
    }
    have += got > 0 ? static_cast<std::size_t>(got) : 0;
    while (have >= steps[next].request_bytes) {
      have -= steps[next].request_bytes;
      if (steps[next].reply_bytes > 0 && ::send(socket.native_handle(), buffer.data(),
                                                steps[next].reply_bytes, MSG_NOSIGNAL) < 0) {
        return;
      }
      next = (next + 1) % steps.size();
    }
    read();
  }
  tcp::socket socket;
  std::vector<Step> steps;
  std::size_t next = 0;
  std::size_t have = 0;
  std::array<char, 64 * 1024> buffer{};
};

/// Forks a server; returns its pid and, through `port`, where it listens.
pid_t fork_server(const std::function<void(asio::io_context&, int)>& serve, std::uint16_t& port) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    fail("no pipe");
  }
  const pid_t pid = ::fork();
  if (pid < 0) {
    fail("cannot fork");
  }
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // whatever way the bench ends
    asio::io_context io{1};
    serve(io, ends[1]);
    io.run();
    ::_exit(0);
  }
  const Fd reader(ends[0]);
  ::close(ends[1]);
  if (::read(reader.get(), &port, sizeof port) != sizeof port) {
    fail("the server did not start");
  }
  return pid;
}

void tell(int fd, std::uint16_t port) {
  if (::write(fd, &port, sizeof port) != sizeof port) {
    ::_exit(1);
  }
}

Fd connect_to(std::uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int one = 1;
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) {
    fail("cannot connect");
  }
  return fd;
}

double per_second(int operations, const std::function<void()>& operation) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < operations; ++i) {
    operation();
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return operations / time.count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Both clients, each with the server that it talks to.
struct Bench {
  StoreClient client;
  Fd raw;
  std::vector<Echo::Step> steps;
  int rounds;
  int operations;
  std::string bytes = std::string(4096, 'e');
  std::array<char, 4096> answer{};

  void store_operation() {
    if (!client.set(kKey, kValue) || !client.get(kKey)) {
      fail("the store failed");
    }
  }
  void echo_operation() {
    for (const auto& step : steps) {
      if (::send(raw.get(), bytes.data(), step.request_bytes, MSG_NOSIGNAL) < 0) {
        fail("the echo server failed");
      }
      for (std::size_t got = 0; got < step.reply_bytes;) {
        const ssize_t size = ::recv(raw.get(), answer.data(), step.reply_bytes - got, 0);
        if (size <= 0) {
          fail("the echo server failed");
        }
        got += static_cast<std::size_t>(size);
      }
    }
  }
  void report() {
    std::vector<double> ours;
    std::vector<double> bare;
    std::vector<double> ratios;
    for (int round = 0; round < rounds; ++round) {
      ours.push_back(per_second(operations, [this] { store_operation(); }));
      bare.push_back(per_second(operations, [this] { echo_operation(); }));
      ratios.push_back(ours.back() / bare.back());
    }
    std::printf("{\"store_ops_per_s\": %.0f, \"echo_ops_per_s\": %.0f, \"ratio\": %.3f}\n",
                median(ours), median(bare), median(ratios));
  }
};

}  // namespace

int main(int count, char** words) {
  const int rounds = count == 3 ? std::atoi(words[1]) : 11;
  const int operations = count == 3 ? std::atoi(words[2]) : 4'000;
  if ((count != 1 && count != 3) || rounds < 1 || operations < 1) {
    fail("[ROUNDS OPERATIONS], two numbers above 0");
  }
  std::uint16_t store_port = 0;
  std::unique_ptr<StoreServer> server;
  const pid_t store = fork_server(
      [&server](asio::io_context& io, int fd) {
        auto listening = StoreServer::listen(io, 0);
        if (!listening) {
          ::_exit(1);
        }
        server = std::move(*listening);
        tell(fd, server->port());
      },
      store_port);

  const std::size_t key = 8 + 1 + sizeof kKey - 1;  // length, '/', text
  const std::vector<Echo::Step> steps{{1 + key + 8 + kValue.size(), 0},
                                      {1 + key, 8 + kValue.size()}};
  std::uint16_t echo_port = 0;
  std::unique_ptr<tcp::acceptor> acceptor;
  const pid_t echo = fork_server(
      [&](asio::io_context& io, int fd) {
        acceptor = std::make_unique<tcp::acceptor>(io, tcp::endpoint(tcp::v4(), 0));
        tell(fd, acceptor->local_endpoint().port());
        acceptor->async_accept([&](boost::system::error_code error, tcp::socket socket) {
          if (!error) {
            socket.non_blocking(true);
            socket.set_option(tcp::no_delay(true));
            std::make_shared<Echo>(std::move(socket), steps)->read();
          }
        });
      },
      echo_port);

  auto client = StoreClient::connect({"127.0.0.1", store_port}, std::chrono::seconds(10));
  if (!client) {
    fail(client.error().sentence());
  }
  Bench bench{std::move(*client), connect_to(echo_port), steps, rounds, operations};
  bench.report();
  for (const pid_t pid : {store, echo}) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  return 0;
}
