// TempDir: a new directory under the temporary directory, removed with all that is in it at the
// end. DDPRUN_KEEP_TEMP=1 in the environment keeps it, for a look at what a failed test left.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <system_error>

namespace ddprun::test {

class TempDir {
 public:
  TempDir() {
    std::string pattern = std::filesystem::temp_directory_path() / "ddprun_test_XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw std::runtime_error("cannot make a directory like " + pattern);
    }
    path_ = pattern;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    if (std::getenv("DDPRUN_KEEP_TEMP") == nullptr) {
      std::error_code ignored;
      std::filesystem::remove_all(path_, ignored);
    }
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }
  /// Writes a file in it and returns its path; an executable one when it starts with "#!".
  std::string write(const std::string& name, const std::string& content) const {
    std::string at = file(name);
    std::filesystem::create_directories(std::filesystem::path(at).parent_path());
    std::ofstream(at, std::ios::binary) << content;
    if (content.starts_with("#!")) {
      std::filesystem::permissions(at, std::filesystem::perms::owner_all);
    }
    return at;
  }

 private:
  std::filesystem::path path_;
};

/// The whole file; empty when it is not there (yet), or not any more (a process's, in /proc).
inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  try {
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  } catch (const std::ios_base::failure&) {
    return {};
  }
}

}  // namespace ddprun::test
