// MappedFile: a whole file as memory, read from the disk where it is looked at. What it is not: a
// copy. Memory of a file that somebody has shortened meanwhile ends the process by SIGBUS, so a
// reader that goes on for long asks require_whole() before it looks. What this program writes for
// itself (trainer/text/token_cache.h) is renamed into place and never changed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace ddp {

/// Move-only. The memory stays where it is when the object moves.
class MappedFile {
 public:
  /// Throws ddp::Error, which begins with the path: it cannot be opened, or is no regular file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] std::string_view text() const {
    return {reinterpret_cast<const char*>(data_), size_};
  }
  /// Throws ddp::Error, which begins with the path, when the file is shorter now than it was. A
  /// system call of less than a microsecond.
  void require_whole() const;
  /// The file will be read once, from its start: the kernel reads ahead and drops what was read.
  void read_in_order() const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ddp
