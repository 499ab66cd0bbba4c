// Many clients at one store: store_load HOST PORT CLIENTS ROUNDS. Each client sets a key, waits for
// it and gets it, as PyTorch's does, again and again; all from one thread, so that the server is
// what is measured. Prints one line of JSON: operations (set or get) per second, and the 99th
// percentile of a round's time. The same program measures any server of the protocol.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/store/store_protocol.h"

namespace {

using namespace ddprun;
namespace proto = ddprun::store_protocol;
using Clock = std::chrono::steady_clock;

const std::string kValue(64, 'v');

struct Client {
  Fd socket;
  std::string key;
  int rounds_left = 0;
  bool getting = false;      ///< the WAIT has been answered
  std::size_t expected = 0;  ///< bytes of the answer that is awaited
  std::size_t got = 0;
  Clock::time_point asked;
};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "store_load: %s\n", what);
  std::exit(1);
}

void send_all(const Client& client, const std::string& bytes) {
  if (::send(client.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(bytes.size())) {
    fail("the server does not take a request");
  }
}

std::string request(proto::Operation operation) {
  std::string bytes;
  proto::put_u8(bytes, static_cast<std::uint8_t>(operation));
  return bytes;
}

/// SET, which is not answered, and WAIT, which is.
void set_and_wait(Client& client) {
  client.asked = Clock::now();
  std::string set = request(proto::Operation::set);
  proto::put_bytes(set, client.key);
  proto::put_bytes(set, kValue);
  send_all(client, set);
  std::string wait = request(proto::Operation::wait);
  proto::put_i64(wait, 1);
  proto::put_bytes(wait, client.key);
  send_all(client, wait);
  client.getting = false;
  client.expected = 1;
  client.got = 0;
}

void get(Client& client) {
  std::string bytes = request(proto::Operation::get);
  proto::put_bytes(bytes, client.key);
  send_all(client, bytes);
  client.getting = true;
  client.expected = sizeof(std::uint64_t) + kValue.size();
  client.got = 0;
}

Fd connect_to(const sockaddr_in& address) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fail("cannot connect");
  }
  return fd;
}

/// So many rounds of every client; the seconds that each took.
std::vector<double> run_all(std::vector<Client>& clients, const Fd& epoll, int rounds) {
  std::vector<double> times;
  times.reserve(clients.size() * static_cast<std::size_t>(rounds));
  for (auto& client : clients) {
    client.rounds_left = rounds;
    set_and_wait(client);
  }
  std::size_t running = clients.size();
  std::array<epoll_event, 256> events;
  std::array<char, 4096> buffer;
  while (running > 0) {
    const int ready = ::epoll_wait(epoll.get(), events.data(), events.size(), 30'000);
    if (ready <= 0) {
      fail("the server does not answer");
    }
    for (int i = 0; i < ready; ++i) {
      Client& client = clients[events[static_cast<std::size_t>(i)].data.u64];
      const ssize_t got = ::recv(client.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got <= 0) {
        fail("the server closed a connection");
      }
      client.got += static_cast<std::size_t>(got);
      if (client.got < client.expected) {
        continue;
      }
      if (!client.getting) {
        get(client);
        continue;
      }
      times.push_back(std::chrono::duration<double>(Clock::now() - client.asked).count());
      if (--client.rounds_left > 0) {
        set_and_wait(client);
      } else {
        --running;
      }
    }
  }
  return times;
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) {
    fail("HOST PORT CLIENTS ROUNDS");
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(words[2])));
  if (::inet_pton(AF_INET, words[1], &address.sin_addr) != 1) {
    fail("HOST is no IPv4 address");
  }
  const int rounds = std::atoi(words[4]);
  std::vector<Client> clients(static_cast<std::size_t>(std::atoi(words[3])));
  const Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  for (std::size_t i = 0; i < clients.size(); ++i) {
    clients[i].socket = connect_to(address);
    clients[i].key = "/rank" + std::to_string(i) + "/step";
    std::string hello("\x00\xCE\xF7\x85\x3C", 5);
    send_all(clients[i], hello);
    epoll_event event{EPOLLIN, {.u64 = i}};
    ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, clients[i].socket.get(), &event);
  }
  // One round of each that does not count: PyTorch's server looks up the name of every address that
  // it accepts, one after the other, which takes seconds where no name service answers.
  const auto connecting = Clock::now();
  run_all(clients, epoll, 1);
  const double connect_s = std::chrono::duration<double>(Clock::now() - connecting).count();
  const auto begin = Clock::now();
  std::vector<double> times = run_all(clients, epoll, rounds);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::sort(times.begin(), times.end());
  std::printf("{\"ops_per_s\": %.0f, \"p99_ms\": %.3f, \"first_round_s\": %.3f}\n",
              2.0 * static_cast<double>(times.size()) / seconds,
              times[times.size() * 99 / 100] * 1e3, connect_s);
  return 0;
}
