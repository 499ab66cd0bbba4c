#include "agent/operations/agent_socket.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define XXH_INLINE_ALL  // no library is linked for one hash
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

constexpr std::string_view kSuffix = ".sock";
/// Of a socket that does not listen yet: nobody may take it for one of a dead agent.
constexpr std::string_view kNewSuffix = ".new";
/// A socket's address has 108 bytes (unix(7)); about 30 go to the directory's descriptor and a pid.
constexpr std::size_t kJobBytesMax = 60;
/// Before a hash, and before a number. An escaped id has neither.
constexpr char kHashMark = '+';
constexpr char kNumberMark = '~';
/// Agents with the same job and pid, each in a container of its own, in one directory.
constexpr int kNumberMax = 16;
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
Fd unix_socket(int type = SOCK_STREAM) {
  return Fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// 0, or errno.
int connect_to(const Fd& directory, const std::string& file, Fd& connection,
               int type = SOCK_STREAM) {
  const auto address = address_in(directory, file);
  connection = unix_socket(type);
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
///
/// Asked with a socket of the wrong type: the kernel refuses it with EPROTOTYPE where a socket is
/// there (unix(7)), and the agent behind it sleeps on. Each agent that starts looks at all others.
bool is_stale(const Fd& directory, const std::string& file, const std::optional<pid_t>& makes_it) {
  Fd connection;
  const bool may_listen_soon = makes_it && (::kill(*makes_it, 0) == 0 || errno != ESRCH);
  return !may_listen_soon && connect_to(directory, file, connection, SOCK_DGRAM) == ECONNREFUSED;
}

/// No link, which could lead root to a socket of another service.
bool belongs_to_owner(const Fd& directory, const std::string& file) {
  struct stat own {};
  struct stat status {};
  return ::fstat(directory.get(), &own) == 0 &&
         ::fstatat(directory.get(), file.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         !S_ISLNK(status.st_mode) && status.st_uid == own.st_uid;
}

/// A file in its place is no directory of the user's, either.
bool belongs_to(const struct stat& status, uid_t user) {
  return S_ISDIR(status.st_mode) && status.st_uid == user;
}

}  // namespace

/// A dot in front would hide the file, and %XX keeps a slash from naming another directory.
std::string job_in_socket_name(std::string_view job_id) {
  std::string text;
  for (const char c : job_id) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || (c == '.' && !text.empty());
    text += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  if (text.size() > kJobBytesMax) {
    const XXH64_hash_t hash = XXH3_64bits(job_id.data(), job_id.size());
    const std::string mark = fmt::format("{}{:016x}", kHashMark, hash);
    text.resize(kJobBytesMax - mark.size());
    text += mark;
  }
  DDP_CHECK(text.size() <= kJobBytesMax, "a socket's address has room for it");
  return text;
}

/// The pid comes last: a job id may have dashes of its own.
std::string agent_socket_name(const AgentSocketName& name) {
  return fmt::format("{}-{}{}{}", name.job, name.pid,
                     name.number > 1 ? kNumberMark + std::to_string(name.number) : "", kSuffix);
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
  const std::string_view rest = name.substr(dash + 1);
  const auto mark = std::min(rest.find(kNumberMark), rest.size());
  const auto pid = parse_number<pid_t>(rest.substr(0, mark));
  const auto number = mark == rest.size() ? 1 : parse_number<int>(rest.substr(mark + 1));
  return pid && *pid > 0 && number && *number > 0
             ? std::optional(AgentSocketName{std::string(name.substr(0, dash)), *pid, *number})
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
  constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
  if (!make && (status.st_mode & kOthersWrite) != 0) {
    return Error{"other users may write in this directory", path, "chmod 700 it"};
  }
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
    if (!name || !belongs_to_owner(directory, file)) {
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

/// The kernel tells each end who the other is: here, who began to listen (unix(7), SO_PEERCRED). So
/// root, which may connect anywhere, does not ask a service behind a link for an agent's user.
int connect_to_agent(const Fd& directory, const AgentSocketName& name, Fd& connection) {
  if (const int failed = connect_to(directory, agent_socket_name(name), connection); failed != 0) {
    return failed;
  }
  struct stat owner {};
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool is_owners =
      ::fstat(directory.get(), &owner) == 0 &&
      ::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
      peer.uid == owner.st_uid;
  return is_owners ? 0 : EACCES;
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
  AgentSocket own(std::move(directory), unix_socket());
  // Another agent may be of the same job and pid, in a container of its own; or, of another pid,
  // see no process of this number, and take the new file for that of one that is no more.
  AgentSocketName name{job_in_socket_name(job_id), ::getpid()};
  while (!own.make(name)) {
    if ((errno != EADDRINUSE && errno != ENOENT) || name.number == kNumberMax) {
      return errno_error(errno, "cannot make the socket", agent_socket_name(name));
    }
    ++name.number;
  }
  return own;
}

/// Renamed once it listens: before, it would look like one of an agent that is no more. Who has the
/// name before that has the name behind it, too, so no live socket is replaced.
bool AgentSocket::make(const AgentSocketName& wanted) {
  const std::string name = agent_socket_name(wanted);
  const std::string new_name = name + std::string(kNewSuffix);
  const auto address = address_in(directory_, new_name);
  DDP_CHECK(address.has_value(), "kJobBytesMax leaves room for all else");
  struct stat status {};
  if (!listener_ ||
      ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return false;
  }
  const bool is_taken =
      ::fstatat(directory_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (is_taken || ::fchmodat(directory_.get(), new_name.c_str(), S_IRUSR | S_IWUSR, 0) != 0 ||
      ::fstatat(directory_.get(), new_name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      ::listen(listener_.get(), kBacklog) != 0 ||
      ::renameat(directory_.get(), new_name.c_str(), directory_.get(), name.c_str()) != 0) {
    const int failed = is_taken ? EADDRINUSE : errno;
    ::unlinkat(directory_.get(), new_name.c_str(), 0);
    listener_ = unix_socket();  // a socket is bound once
    errno = failed;
    return false;
  }
  name_ = name;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  return true;
}

/// By the directory's descriptor: the path may lead elsewhere by now.
AgentSocket::~AgentSocket() {
  struct stat status {};
  if (directory_ && !name_.empty() &&
      ::fstatat(directory_.get(), name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
      status.st_dev == device_ && status.st_ino == inode_) {
    ::unlinkat(directory_.get(), name_.c_str(), 0);
  }
}

}  // namespace ddprun
