#include "trainer/metrics/append_file.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "ddp/error.h"

namespace ddp {

/// O_APPEND and O_CLOEXEC: several attempts may write one after the other, and no child inherits
/// it.
AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code failure;
  std::filesystem::create_directories(path_.parent_path(), failure);
  if (!failure) {
    file_.reset(std::fopen(path_.c_str(), "abe"));
    failure = std::error_code(errno, std::generic_category());
  }
  if (!file_) {
    throw Error(path_.string() + ": cannot be written: " + failure.message() +
                "; name a directory that this worker may write to");
  }
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);  // each record is one write()
}

/// Metrics are worth less than the training: a full disk ends them and nothing else.
void AppendFile::append(std::string_view record) {
  if (!file_) {
    return;
  }
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size()) {
    std::fprintf(stderr, "%s: cannot be written: %s; the training goes on without it\n",
                 path_.c_str(), std::strerror(errno));
    file_.reset();
  }
}

}  // namespace ddp
