// A file of data, as a text in memory.
#pragma once

#include <filesystem>
#include <string>

namespace ddp {

/// All bytes of a regular file. Throws Error, without the path, when it cannot be read or is
/// another thing: a FIFO or a device may have no end.
std::string read_whole_file(const std::filesystem::path& path);

}  // namespace ddp
