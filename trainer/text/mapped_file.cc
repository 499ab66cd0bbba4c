#include "trainer/text/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "ddp/error.h"

namespace ddp {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw Error(path.string() + ": " + what);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  // Without O_NONBLOCK the open of a FIFO waits for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    fail(path, std::string("cannot be read: ") + std::strerror(errno));
  }
  struct stat status {};
  const bool regular = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  size_ = regular ? static_cast<std::size_t>(status.st_size) : 0;
  // mmap(2) refuses a length of 0; an empty file is an empty view.
  void* memory = size_ == 0 ? nullptr : ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  const int problem = errno;
  if (!regular || memory == MAP_FAILED) {
    ::close(fd);
    fail(path, regular ? std::string("cannot be mapped: ") + std::strerror(problem)
                       : "is not a regular file");
  }
  fd_ = fd;
  data_ = static_cast<const std::byte*>(memory);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

void MappedFile::require_whole() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0 || static_cast<std::size_t>(status.st_size) < size_) {
    fail(path_,
         "was shortened while it was read; make it whole again, and do not change files "
         "that a training reads");
  }
}

void MappedFile::read_in_order() const {
  if (data_ != nullptr) {
    // Advice alone: what it returns changes nothing.
    ::madvise(const_cast<std::byte*>(data_), size_, MADV_SEQUENTIAL);
  }
}

}  // namespace ddp
