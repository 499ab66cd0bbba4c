#include "agent/output/filtered_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace ddprun {

Result<std::shared_ptr<FilteredLog>> FilteredLog::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd) {
    return errno_error(errno, "cannot open the log of filtered lines", path);
  }
  return std::make_shared<FilteredLog>(std::move(fd));
}

void FilteredLog::append(const void* stream, std::string_view text) {
  std::string whole;
  line_.append(stream, text, whole);
  if (!whole.empty()) {
    // O_APPEND keeps the pieces whole. A full disk must not end the job: the line is in the
    // worker's own file too.
    [[maybe_unused]] const ssize_t written = ::write(fd_.get(), whole.data(), whole.size());
  }
}

}  // namespace ddprun
