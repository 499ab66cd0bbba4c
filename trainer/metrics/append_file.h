// AppendFile: a file to which whole records are appended, one write() each, so that a process that
// is killed leaves no half of one behind. A disk that fails is reported once, on stderr; the
// training goes on.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

namespace ddp {

class AppendFile {
 public:
  /// Opens the file, made where it is not there, with its directories. Throws ddp::Error with one
  /// sentence when it cannot: a wrong directory is found before the training, not after it.
  explicit AppendFile(std::filesystem::path path);

  /// After a failure nothing is written any more: what follows a torn record cannot be read.
  void append(std::string_view record);

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace ddp
