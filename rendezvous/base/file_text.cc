#include "rendezvous/base/file_text.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string_view>
#include <system_error>

#include "rendezvous/base/fd.h"

namespace ddprun {
namespace {

/// Far more than a file that is read here has. PBS's node file has a line for each process.
constexpr std::size_t kBytesMax = std::size_t{64} << 20;

/// /dev/null, which is empty as a file may be (Linux, admin-guide/devices.txt).
const dev_t kNullDevice = makedev(1, 3);

/// In milliseconds. Signals are held while options are read, so a writer that never ends would make
/// this process deaf.
constexpr int kPipeSilenceMax = 10'000;

/// Of `<(command)`, or standard input behind `|`: it ends with the command that writes it.
bool is_shells_pipe(std::string_view path) {
  return path.starts_with("/dev/fd/") || path == "/dev/stdin";
}

/// `silence_max`: how long a pipe may say nothing.
std::optional<std::string> content(const Fd& file, std::size_t bytes_max, int silence_max = 0) {
  if (!file) {
    return std::nullopt;
  }
  std::string text;
  // Files of /proc have a size of 0 for stat(2), so this one is read until it ends.
  char buffer[4096];
  while (text.size() <= bytes_max) {
    pollfd readable{file.get(), POLLIN, 0};
    if (silence_max > 0 && ::poll(&readable, 1, silence_max) <= 0) {
      return std::nullopt;
    }
    const ssize_t got = ::read(file.get(), buffer, sizeof(buffer));
    if (got <= 0) {
      return got == 0 ? std::optional(text) : std::nullopt;
    }
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> read_file(const std::string& path) {
  return content(Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), std::string().max_size());
}

std::optional<std::string> read_named_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) {
    return std::nullopt;
  }
  if (S_ISCHR(status.st_mode) && status.st_rdev == kNullDevice) {
    return std::string();
  }
  if (S_ISFIFO(status.st_mode) && is_shells_pipe(path)) {
    return content(file, kBytesMax, kPipeSilenceMax);
  }
  return S_ISREG(status.st_mode) ? content(file, kBytesMax) : std::nullopt;
}

std::string why_no_text(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) {
    return std::generic_category().message(errno);
  }
  return S_ISDIR(status.st_mode) ? "it is a directory"
         : S_ISREG(status.st_mode)
             ? (static_cast<std::size_t>(status.st_size) > kBytesMax ? "it has more than 64 MiB"
                                                                     : "reading it failed")
         : S_ISFIFO(status.st_mode) && is_shells_pipe(path)
             ? "who writes into this pipe says nothing for ten seconds, or more than 64 MiB"
             : "it is no regular file";
}

}  // namespace ddprun
