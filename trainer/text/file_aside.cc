#include "trainer/text/file_aside.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "trainer/storage_error.h"

namespace ddp {
namespace {

using Path = std::filesystem::path;

constexpr std::size_t kBufferBytes = std::size_t{1} << 20U;
constexpr char kEnding[] = ".partial";

Path folder_of(const Path& path) {
  return path.has_parent_path() ? path.parent_path() : Path(".");
}

/// Of its process and of its number in it, and yet a process on another machine may have the same.
constexpr int kNamesMax = 1000;

/// Removes the file unless a living process writes it: that one holds the lock, on NFS from another
/// machine, too. Where a file system has no locks, nobody can know, and the file stays.
void remove_unless_written(const Path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) {
    return;
  }
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
    ::unlink(path.c_str());
  }
  ::close(fd);
}

/// Of writers that were killed: each has a name of its own, so nobody else removes them.
void remove_left_overs(const Path& path, const std::string& begin) {
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of(path), problem)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(begin) && name.ends_with(kEnding)) {
      remove_unless_written(entry.path());
    }
  }
}

/// A new file under this name, locked; -1 with errno EEXIST when the name is another one's.
int make_locked(const Path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) {
    return fd;
  }
  const bool refused = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  struct stat status {};
  // Before the lock was there, another process may have taken the file for one that was left.
  if (refused || ::fstat(fd, &status) != 0 || status.st_nlink == 0) {
    ::close(fd);
    errno = EEXIST;
    return -1;
  }
  return fd;
}

}  // namespace

FileAside::FileAside(Path path, const std::string& mark) : path_(std::move(path)) {
  const std::string begin = path_.filename().string() + "." + mark;
  remove_left_overs(path_, begin);
  for (int number = 0; number < kNamesMax && fd_ < 0; ++number) {
    aside_ = folder_of(path_) / fmt::format("{}{}.{}{}", begin, ::getpid(), number, kEnding);
    fd_ = make_locked(aside_);
    if (fd_ < 0 && errno != EEXIST) {
      break;
    }
  }
  if (fd_ < 0) {
    const int why = errno;
    const bool forbidden = why == EACCES || why == EPERM || why == EROFS;
    throw Error(fmt::format("{}: no file can be made there: {}; {}name another directory",
                            folder_of(path_).string(), std::strerror(why),
                            forbidden ? "let the user who trains write there, or " : ""));
  }
}

FileAside::~FileAside() {
  if (fd_ >= 0) {
    ::close(fd_);
    ::unlink(aside_.c_str());
  }
}

void FileAside::fail(const std::string& what) const {
  throw StorageError(aside_.string() + ": " + what + ": " + std::strerror(errno) +
                     "; make room there, and give the same command again");
}

void FileAside::append(std::span<const std::byte> bytes) {
  if (bytes.size() >= kBufferBytes) {
    flush();
    write_all(bytes);
    return;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= kBufferBytes) {
    flush();
  }
}

void FileAside::write_start(std::span<const std::byte> bytes) {
  flush();
  const auto written = ::pwrite(fd_, bytes.data(), bytes.size(), 0);
  if (written != static_cast<ssize_t>(bytes.size())) {
    fail("cannot be written");
  }
}

void FileAside::flush() {
  write_all(buffer_);
  buffer_.clear();
}

void FileAside::write_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    // A disk that fills up may take a part first, and refuse the rest in the next call.
    const auto written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      fail("cannot be written");
    }
    bytes = bytes.subspan(written > 0 ? static_cast<std::size_t>(written) : 0);
  }
}

/// Synced before it gets its name: after a power loss the name stands for the whole file or for
/// none.
void FileAside::finish() {
  flush();
  // Before the rename: a name that survives a crash must not have a file that did not.
  if (::fsync(fd_) != 0 || ::rename(aside_.c_str(), path_.c_str()) != 0) {
    fail("cannot be brought to the disk");
  }
  ::close(std::exchange(fd_, -1));
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    // A name that a crash takes away costs the time to make the file anew, no more.
    ::fsync(folder);
    ::close(folder);
  }
}

}  // namespace ddp
