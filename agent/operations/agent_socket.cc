#include "agent/operations/agent_socket.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

constexpr std::string_view kSuffix = ".sock";
/// Of a socket that does not listen yet: nobody may take it for one of a dead agent.
constexpr std::string_view kNewSuffix = ".new";
/// A socket's address has 108 bytes (unix(7)); about 30 go to the directory's descriptor and a pid.
constexpr std::size_t kJobBytesMax = 60;
/// Connections that wait to be taken.
constexpr int kBacklog = 16;

/// By the descriptor of the directory: the path of a runtime directory may be longer than an
/// address, and the directory that was checked is the one that is used.
std::optional<sockaddr_un> address_in(const Fd& directory, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/{}", directory.get(), name);
  if (path.size() >= sizeof address.sun_path) {
    return std::nullopt;
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

/// Non-blocking: nobody waits for an agent that stands still, and an agent waits for nobody.
Fd unix_socket() {
  return Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// The pid comes last: a job id may have dashes of its own.
std::string file_of(const AgentSocketName& name) {
  return name.job + "-" + std::to_string(name.pid) + std::string(kSuffix);
}

/// 0, or errno.
int connect_to(const Fd& directory, const std::string& file, Fd& connection) {
  const auto address = address_in(directory, file);
  connection = unix_socket();
  if (!address || !connection) {
    return address ? errno : ENAMETOOLONG;
  }
  return ::connect(connection.get(), reinterpret_cast<const sockaddr*>(&*address),
                   sizeof *address) == 0
             ? 0
             : errno;
}

/// Nobody listens there. The process of that number proves nothing: numbers are used again, at once
/// where a container starts anew. But one that has just been made may listen in a moment, as long
/// as its process lives.
bool is_stale(const Fd& directory, const std::string& file, const std::optional<pid_t>& makes_it) {
  Fd connection;
  const bool may_listen_soon = makes_it && (::kill(*makes_it, 0) == 0 || errno != ESRCH);
  return !may_listen_soon && connect_to(directory, file, connection) == ECONNREFUSED;
}

/// A file in its place is no directory of the user's, either.
bool belongs_to(const struct stat& status, uid_t user) {
  return S_ISDIR(status.st_mode) && status.st_uid == user;
}

}  // namespace

/// A dot in front would hide the file, and %XX keeps a slash from naming another directory. Two
/// long ids may share a name; the pids tell their agents apart.
std::string job_in_socket_name(std::string_view job_id) {
  std::string text;
  for (const char c : job_id) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || (c == '.' && !text.empty());
    text += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    if (text.size() > kJobBytesMax) {
      text.resize(kJobBytesMax);
      break;
    }
  }
  return text;
}

std::string agent_socket_name(std::string_view job_id, pid_t pid) {
  return file_of({job_in_socket_name(job_id), pid});
}

/// Total: anybody of this user may put any file there.
std::optional<AgentSocketName> parse_socket_name(std::string_view name) {
  if (!name.ends_with(kSuffix)) {
    return std::nullopt;
  }
  name.remove_suffix(kSuffix.size());
  const auto dash = name.rfind('-');
  if (dash == std::string_view::npos) {
    return std::nullopt;
  }
  const auto pid = parse_number<pid_t>(name.substr(dash + 1));
  return pid && *pid > 0 ? std::optional(AgentSocketName{std::string(name.substr(0, dash)), *pid})
                         : std::nullopt;
}

/// The same places for agents and for who looks for them, so the order needs no agreement: ddpctl
/// looks in all.
std::vector<std::string> agent_socket_dirs(uid_t user, const char* runtime_dir) {
  std::vector<std::string> directories;
  const std::string of_user = fmt::format("/run/user/{}/ddprun", user);
  // A relative path is none, says the XDG Base Directory Specification.
  if (runtime_dir != nullptr && *runtime_dir == '/') {
    directories.push_back(std::string(runtime_dir) + "/ddprun");
  }
  if (directories.empty() || directories.front() != of_user) {
    directories.push_back(of_user);
  }
  directories.push_back(fmt::format("/tmp/ddprun-{}", user));
  return directories;
}

/// XDG_RUNTIME_DIR may be another user's, after su(1): what root made there would keep its user's
/// own agents out.
Result<Fd> open_socket_dir(const std::string& path, uid_t user, bool make) {
  struct stat status {};
  const std::string parent = path.substr(0, path.rfind('/'));
  if (parent != "/tmp" && (::stat(parent.c_str(), &status) != 0 || !belongs_to(status, user))) {
    return Error{"there is no such directory of this user", parent, ""};
  }
  // mkdir(2) follows no link in the last part, and open() below none either.
  if (make && ::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return errno_error(errno, "cannot make the directory", path);
  }
  Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) {
    return errno_error(errno, "cannot open the directory", path);
  }
  if (::fstat(directory.get(), &status) != 0 || !belongs_to(status, user)) {
    return Error{"another user owns this directory", path, "remove it, or set XDG_RUNTIME_DIR"};
  }
  constexpr mode_t kOthers = S_IRWXG | S_IRWXO;
  if (make && (status.st_mode & kOthers) != 0) {
    ::fchmod(directory.get(), S_IRWXU);
  }
  return directory;
}

/// A new descriptor for the directory: readdir(3) moves the place that descriptors share.
std::vector<AgentSocketName> agents_in(const Fd& directory) {
  std::vector<AgentSocketName> found;
  const int copy = ::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const entries = copy >= 0 ? ::fdopendir(copy) : nullptr;
  if (entries == nullptr) {
    Fd(copy).reset();
    return found;
  }
  while (const dirent* entry = ::readdir(entries)) {
    const std::string file = entry->d_name;
    const bool is_new = file.ends_with(kNewSuffix);
    const auto name = parse_socket_name(
        std::string_view(file).substr(0, file.size() - (is_new ? kNewSuffix.size() : 0)));
    if (!name) {
      continue;
    }
    if (is_stale(directory, file, is_new ? std::optional(name->pid) : std::nullopt)) {
      ::unlinkat(directory.get(), file.c_str(), 0);
    } else if (!is_new) {
      found.push_back(*name);
    }
  }
  ::closedir(entries);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return found;
}

int connect_to_agent(const Fd& directory, const AgentSocketName& name, Fd& connection) {
  return connect_to(directory, file_of(name), connection);
}

/// By the kernel's word, taken when the other end connected: it cannot be made up.
bool peer_is_own_user(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == ::geteuid() || peer.uid == 0);
}

/// The directory may be on a file system that is full or has no sockets; then there is no ddpctl
/// for this agent, and its job runs all the same.
Result<AgentSocket> AgentSocket::open(const std::vector<std::string>& directories,
                                      std::string_view job_id) {
  // The first that can be had; the last one is there on every host.
  Error why{"there is no place for it", "", ""};
  Fd directory;
  for (const std::string& path : directories) {
    auto opened = open_socket_dir(path, ::geteuid(), true);
    if (opened) {
      directory = std::move(*opened);
      break;
    }
    why = opened.error();  // of the last one, which every host has
  }
  if (!directory) {
    return why;
  }
  // Whoever starts cleans up after those that were killed: nobody else may ever look.
  (void)agents_in(directory);
  std::string name = agent_socket_name(job_id, ::getpid());
  const std::string new_name = name + std::string(kNewSuffix);
  const auto address = address_in(directory, new_name);
  Fd listener = unix_socket();
  ::unlinkat(directory.get(), new_name.c_str(), 0);
  // Renamed once it listens: before, it would look like one of an agent that is no more.
  if (!address || !listener ||
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      ::fchmodat(directory.get(), new_name.c_str(), S_IRUSR | S_IWUSR, 0) != 0 ||
      ::listen(listener.get(), kBacklog) != 0 ||
      ::renameat(directory.get(), new_name.c_str(), directory.get(), name.c_str()) != 0) {
    return errno_error(errno, "cannot make the socket", name);
  }
  return AgentSocket(std::move(directory), std::move(name), std::move(listener));
}

/// By the directory's descriptor: the path may lead elsewhere by now.
AgentSocket::~AgentSocket() {
  if (directory_) {
    ::unlinkat(directory_.get(), name_.c_str(), 0);
  }
}

}  // namespace ddprun
