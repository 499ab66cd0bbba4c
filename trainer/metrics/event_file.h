// EventFile: the curves of one rank, as TensorBoard reads them (docs/event-files.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/metrics/append_file.h"
#include "trainer/metrics/event_message.h"

namespace ddp {

class EventFile {
 public:
  /// Begins a new file in `directory`, behind those that are there. Throws ddp::Error when it
  /// cannot be written.
  explicit EventFile(const std::filesystem::path& directory);

  /// Call it once, before the first add(): what earlier files say of this step and of those after
  /// it is no longer drawn.
  void start_at(std::int64_t step);
  void add(std::int64_t step, const std::vector<Scalar>& scalars);

 private:
  AppendFile file_;
};

/// The name of the next file beside `names`. TensorBoard reads the files of a directory in the
/// order of their names, and a START purges only what was read before it. So the number in a name
/// is the time in seconds, but always above those that are there: of a restart within the same
/// second, or after the clock was set back.
std::string next_event_file_name(const std::vector<std::string>& names, std::int64_t now_s,
                                 const std::string& host, std::int64_t pid);

}  // namespace ddp
