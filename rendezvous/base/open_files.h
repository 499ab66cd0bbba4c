// What people can do where a call gets no descriptor.
#pragma once

#include <cerrno>
#include <string>
#include <utility>

namespace ddprun {

/// `otherwise`: where the call failed for another reason.
inline std::string open_files_todo(int errno_value, std::string otherwise = {}) {
  if (errno_value == EMFILE) {
    return "raise the limit of open files (ulimit -n)";
  }
  if (errno_value == ENFILE) {
    return "raise this machine's limit of open files (sysctl fs.file-max)";
  }
  return otherwise;
}

}  // namespace ddprun
