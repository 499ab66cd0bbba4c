#include "worker_runtime/snapshot/file_layer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <system_error>
#include <utility>

#include "rendezvous/base/fd.h"

namespace ddp {
namespace {

using ddprun::errno_error;
using ddprun::Fd;
using ddprun::Result;
using Path = FileLayer::Path;

/// Opens again when a signal came between.
Fd open_file(const Path& path, int flags, mode_t mode = 0) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return Fd(fd);
}

/// write(2) may leave bytes in the page cache; what is to survive a power cut needs fsync(2).
Result<void> sync_fd(const Fd& fd, const Path& path) {
  if (::fsync(fd.get()) != 0) {
    return errno_error(errno, "cannot bring it to the disk", path.string());
  }
  return {};
}

Unread unread(int errno_value, const Path& path) {
  return {errno_error(errno_value, "cannot be read", path.string()), fault_of(errno_value)};
}

Unread unusable(int errno_value, const Path& path) {
  return {errno_error(errno_value, "cannot be used as a directory", path.string()),
          fault_of(errno_value)};
}

Result<bool> made_or(const std::error_code& problem, bool made, const Path& path) {
  if (problem) {
    return errno_error(problem.value(), "cannot make the directory", path.string());
  }
  return made;
}

class RealOutputFile : public OutputFile {
 public:
  RealOutputFile(Fd fd, Path path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Result<void> append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const std::size_t direct_bytes = bytes_past_the_cache(bytes);
      // A disk that fills up may take a part first, and refuse the rest in the next call.
      const auto written =
          ::write(fd_.get(), bytes.data(), direct_bytes > 0 ? direct_bytes : bytes.size());
      if (written < 0 && errno == EINTR) {
        continue;
      }
      if (written < 0 && errno == EINVAL && direct_bytes > 0) {
        may_be_direct_ = false;  // this file system wants more than pages, or cannot at all
        continue;
      }
      if (written < 0) {
        return errno_error(errno, "cannot write", path_.string());
      }
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      written_bytes_ += written;
    }
    start_writeback();
    return {};
  }

  Result<void> sync() override { return sync_fd(fd_, path_); }

  Result<void> close() override {
    // On Linux the descriptor is gone whatever close() returns, so it is never closed twice.
    if (::close(fd_.release()) != 0 && errno != EINTR) {
      return errno_error(errno, "cannot close", path_.string());
    }
    return {};
  }

 private:
  /// How many of the bytes are written from this memory to the disk without a copy in the page
  /// cache, which would take a processor from the training: whole pages, of a large piece that lies
  /// and goes on a page's border. 0: none.
  std::size_t bytes_past_the_cache(std::span<const std::byte> bytes) {
    constexpr std::size_t kPageBytes = 4096;
    constexpr std::size_t kBytesMin = std::size_t{1} << 20;
    const bool direct = may_be_direct_ && bytes.size() >= kBytesMin &&
                        reinterpret_cast<std::uintptr_t>(bytes.data()) % kPageBytes == 0 &&
                        written_bytes_ % static_cast<off_t>(kPageBytes) == 0;
    if (direct != is_direct_) {
      const int flags = ::fcntl(fd_.get(), F_GETFL);
      if (::fcntl(fd_.get(), F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) != 0) {
        may_be_direct_ = false;  // a file system in memory
        return 0;
      }
      is_direct_ = direct;
    }
    return direct ? bytes.size() / kPageBytes * kPageBytes : 0;
  }

  /// Linux keeps a file of some hundred megabytes in memory until fsync(2) asks for it: the disk
  /// would stand still while the bytes are copied, and then be waited for.
  void start_writeback() {
    constexpr off_t kStretchBytes = off_t{8} << 20;
    if (written_bytes_ - started_bytes_ >= kStretchBytes) {
      // A hint: whatever it does, sync() sees to it that the bytes are on the disk.
      static_cast<void>(::sync_file_range(fd_.get(), started_bytes_,
                                          written_bytes_ - started_bytes_, SYNC_FILE_RANGE_WRITE));
      started_bytes_ = written_bytes_;
    }
  }

  Fd fd_;
  Path path_;
  bool may_be_direct_ = true;
  bool is_direct_ = false;
  off_t written_bytes_ = 0;
  off_t started_bytes_ = 0;  ///< of these, handed to the disk
};

class RealFiles : public FileLayer {
 public:
  Result<bool> make_directory(const Path& path) override {
    std::error_code problem;
    // One mkdir(2) makes it and shows whether it was there: claim() needs both in one step.
    const bool made = std::filesystem::create_directory(path, problem);
    return made_or(problem, made, path);
  }

  Result<bool> make_directories(const Path& path) override {
    std::error_code problem;
    const bool made = std::filesystem::create_directories(path, problem);
    return made_or(problem, made, path);
  }

  ReadResult<std::vector<std::string>> list(const Path& path) override {
    std::vector<std::string> names;
    std::error_code problem;
    std::filesystem::directory_iterator entry(path, problem);
    const std::filesystem::directory_iterator end;
    while (!problem && entry != end) {
      names.push_back(entry->path().filename().string());
      entry.increment(problem);
    }
    // No directory is no snapshot yet.
    if (problem && problem != std::errc::no_such_file_or_directory) {
      return Unread{errno_error(problem.value(), "cannot be read as a directory", path.string()),
                    fault_of(problem.value())};
    }
    // readdir(3) has no order.
    std::sort(names.begin(), names.end());
    return names;
  }

  ReadResult<std::vector<std::byte>> read(const Path& path, std::size_t bytes_max) override {
    const Fd fd = open_file(path, O_RDONLY | O_NONBLOCK);  // a FIFO must not stop us
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0) {
      return unread(errno, path);
    }
    if (!S_ISREG(status.st_mode)) {
      return ddprun::Error{"is not a regular file", path.string(), ""};
    }
    const auto size = static_cast<std::size_t>(status.st_size);
    // Before memory is taken: what has the true size may be the damaged file itself.
    if (size > bytes_max) {
      return ddprun::Error{fmt::format("has {} bytes, at most {} are expected", size, bytes_max),
                           path.string(), ""};
    }
    std::vector<std::byte> bytes(size);
    std::size_t done = 0;
    while (done < size) {
      const auto got = ::read(fd.get(), bytes.data() + done, size - done);
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        return unread(errno, path);
      }
      if (got == 0) {
        break;  // it shrank meanwhile; the checksum will tell
      }
      done += static_cast<std::size_t>(got);
    }
    bytes.resize(done);
    return bytes;
  }

  Result<std::unique_ptr<OutputFile>> create(const Path& path) override {
    Fd fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (!fd) {
      return errno_error(errno, "cannot be created", path.string());
    }
    return std::unique_ptr<OutputFile>(std::make_unique<RealOutputFile>(std::move(fd), path));
  }

  std::optional<Unread> refuses_reads(const Path& path) override {
    const Fd fd = open_file(path, O_RDONLY | O_NONBLOCK);
    return fd ? std::nullopt : std::optional(unread(errno, path));
  }

  std::optional<Unread> refuses_writes(const Path& path) override {
    Path at = path;
    struct stat status {};
    while (::stat(at.c_str(), &status) != 0) {
      const int problem = errno;
      if (problem == ENOENT && ::lstat(at.c_str(), &status) == 0) {
        return Unread{{"is a link to what is not there", at.string(), ""}};
      }
      if ((problem != ENOENT && problem != ENOTDIR) || !at.has_relative_path()) {
        const bool for_good = fault_of(problem) != Fault::unreadable;
        return for_good ? std::optional(unusable(problem, at)) : std::nullopt;
      }
      at = at.parent_path();
    }
    if (!S_ISDIR(status.st_mode)) {
      return Unread{{"is not a directory", at.string(), ""}};
    }
    if (::faccessat(AT_FDCWD, at.c_str(), W_OK | X_OK, AT_EACCESS) != 0 &&
        (fault_of(errno) == Fault::forbidden || errno == EROFS)) {
      return Unread{errno_error(errno, "cannot be written to", at.string()), Fault::forbidden};
    }
    return std::nullopt;
  }

  bool is_link(const Path& path) override {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
  }

  Result<void> sync_directory(const Path& path) override {
    // The parent of a path of one word is an empty path: the working directory.
    const Fd fd = open_file(path.empty() ? Path(".") : path, O_RDONLY | O_DIRECTORY);
    if (!fd) {
      return errno_error(errno, "cannot be opened as a directory", path.string());
    }
    return sync_fd(fd, path);
  }

  Result<void> rename(const Path& from, const Path& to) override {
    // The commit and the fence in one: it fails where the mark is gone. rename(2) alone would take
    // an empty directory's place.
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
      return {};
    }
    struct stat status {};
    int problem = errno;
    if (problem == EINVAL || problem == ENOSYS) {  // a network's file system may lack it
      const bool is_free = ::lstat(to.c_str(), &status) != 0 && errno == ENOENT;
      problem = !is_free ? EEXIST : ::rename(from.c_str(), to.c_str()) != 0 ? errno : 0;
    }
    if (problem == EEXIST) {
      return ddprun::Error{"is in the way of a snapshot", to.string(), "move it away"};
    }
    if (problem != 0) {
      const Path into = to.parent_path().filename();
      return errno_error(problem, "cannot be moved into " + into.string(), from.string());
    }
    return {};
  }

  Result<void> remove_all(const Path& path) override {
    std::error_code problem;
    // What is not there is no error, so a clean-up may be repeated.
    std::filesystem::remove_all(path, problem);
    if (problem) {
      return errno_error(problem.value(), "cannot be removed", path.string());
    }
    return {};
  }
};

}  // namespace

Fault fault_of(int errno_value) {
  switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENXIO:  // a socket has its name
    case ENAMETOOLONG:
      return Fault::damaged;
    case EACCES:
    case EPERM:
      return Fault::forbidden;
    default:
      return Fault::unreadable;
  }
}

std::shared_ptr<FileLayer> real_files() {
  return std::make_shared<RealFiles>();
}

}  // namespace ddp
