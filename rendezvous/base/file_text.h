// A small file at once. Not for files of a user's size: those have readers of their own.
#pragma once

#include <optional>
#include <string>

namespace ddprun {

/// A file's content as /proc and /sys have it; none when it cannot be read, is no regular file, or
/// has more than 64 MiB.
std::optional<std::string> read_file(const std::string& path);

}  // namespace ddprun
