// A small file at once. Not for files of a user's size: those have readers of their own.
#pragma once

#include <optional>
#include <string>

namespace ddprun {

/// A file's content as /proc and /sys have it; none when it cannot be read.
std::optional<std::string> read_file(const std::string& path);

/// The same of a file that a variable names, which may be anything: none where it is no regular
/// file (a FIFO would let us wait, and a device never ends), or has more than 64 MiB. Of /dev/null:
/// empty. A pipe that the shell made is read until its writer ends, or says
/// nothing for ten seconds (then none): /dev/fd/63, /dev/stdin.
std::optional<std::string> read_named_file(const std::string& path);

/// Why read_named_file() gave none, as far as can be seen now: "it is a directory".
std::string why_no_text(const std::string& path);

}  // namespace ddprun
