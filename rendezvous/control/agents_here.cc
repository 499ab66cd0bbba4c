#include "rendezvous/control/agents_here.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "rendezvous/control/own_host.h"

namespace ddprun {
namespace {

constexpr std::string_view kMark = "ddprun-agent-";

}  // namespace

/// An abstract name (unix(7)) belongs to a network namespace, and is gone with the last process
/// that has the socket, however that ends. Nothing has to be cleaned up, and no file can be left
/// over or deleted.
Fd mark_agent(VoterId self) {
  const std::string name = fmt::format("{}{:016x}", kMark, number(self));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  static_assert(kMark.size() + 17 <= sizeof address.sun_path);
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // the first byte is 0
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    return {};
  }
  return socket;
}

/// The kernel lists all bound sockets of the namespace in /proc/net/unix, an abstract name behind
/// an '@'.
AgentHost agents_here() {
  AgentHost here{own_host(), {}};
  const std::string mark = "@" + std::string(kMark);
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const auto at = line.find(mark);
    if (at == std::string::npos) {
      continue;
    }
    std::uint64_t id = 0;
    const char* const digits = line.data() + at + mark.size();
    const auto [end, error] = std::from_chars(digits, line.data() + line.size(), id, 16);
    if (error != std::errc() || end == digits) {
      continue;
    }
    if (here.agents.size() == kAgentsHereMax) {
      here.agents.clear();
      break;
    }
    here.agents.push_back(VoterId{id});
  }
  return here;
}

}  // namespace ddprun
