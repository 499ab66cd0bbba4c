// AgentSocket: where ddpctl finds the agents of a user on this host: a Unix socket for each, in a
// directory that is the user's alone. Agents make and remove them; ddpctl looks for them. What is
// said over one is HTTP (http_server.h).
//
// The kernel removes no such file with its process, so those of agents that were killed stay until
// the next agent, or ddpctl, finds that nobody listens there. (A look is a connection that is
// closed at once.)
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace ddprun {

/// A socket's name, taken apart.
struct AgentSocketName {
  std::string job;  ///< as job_in_socket_name() has it
  pid_t pid = 0;    ///< as the agent sees it
  int number = 1;   ///< of those with the same job and pid: in containers that share a directory
  friend bool operator==(const AgentSocketName&, const AgentSocketName&) = default;
};
/// Pure. "nightly-4711.sock", or with its number "nightly-4711~2.sock".
std::string agent_socket_name(const AgentSocketName& name);
/// Pure. The part of such a name that stands for this job id and no other: the id, with %XX for
/// what is no letter, digit, dot, dash or underscore. What a socket's address has no room for is
/// cut, and a hash of the whole id takes its place.
std::string job_in_socket_name(std::string_view job_id);
/// Pure. None: it is no such name.
std::optional<AgentSocketName> parse_socket_name(std::string_view name);

/// Pure. Where the sockets of this user may be, the first choice first: below XDG_RUNTIME_DIR
/// (`runtime_dir`; may be null), below /run/user/UID, /tmp/ddprun-UID.
std::vector<std::string> agent_socket_dirs(uid_t user, const char* runtime_dir);

/// The directory, opened. It, and what it is in but for /tmp, belongs to `user`: else another user
/// could put a socket there, and is refused. So is one in which others may write, but with `make`:
/// then it is made where it is not there yet, and for this user alone.
Result<Fd> open_socket_dir(const std::string& path, uid_t user, bool make);

/// Names in a directory of sockets. Those where nobody listens any more are removed on the way.
/// Links and files of another owner than the directory's are left out.
std::vector<AgentSocketName> agents_in(const Fd& directory);

/// A connection to this agent; errno where there is none: ECONNREFUSED, ENOENT, EAGAIN (it has not
/// taken those before for so long that no more fit), EACCES (who listens there is not the user that
/// owns the directory).
int connect_to_agent(const Fd& directory, const AgentSocketName& name, Fd& connection);

/// The process at the other end runs as this process' user, or as root (SO_PEERCRED, unix(7)).
bool peer_is_own_user(int connection);

/// An agent's own socket, from its making until its end.
class AgentSocket {
 public:
  /// In the first of `directories` that can be had. Those of agents that are no more are removed.
  static Result<AgentSocket> open(const std::vector<std::string>& directories,
                                  std::string_view job_id);
  AgentSocket(AgentSocket&&) = default;
  AgentSocket& operator=(AgentSocket&&) = default;
  AgentSocket(const AgentSocket&) = delete;
  AgentSocket& operator=(const AgentSocket&) = delete;
  /// Removes the file, unless another one has its name by now.
  ~AgentSocket();

  /// Listening and non-blocking; can be taken once.
  [[nodiscard]] Fd take_listener() { return std::move(listener_); }

 private:
  AgentSocket(Fd directory, Fd listener)
      : directory_(std::move(directory)), listener_(std::move(listener)) {}
  /// False, with errno: it cannot be had under this name. EADDRINUSE: another one has it; ENOENT:
  /// somebody has removed it meanwhile.
  bool make(const AgentSocketName& wanted);

  Fd directory_;  ///< empty: moved from
  std::string name_;
  Fd listener_;
  dev_t device_ = 0;  ///< with inode_: which file it is
  ino_t inode_ = 0;
};

}  // namespace ddprun
