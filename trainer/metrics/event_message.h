// TensorBoard's messages and their framing as bytes. Pure. docs/event-files.md has the format and
// its source; only what a curve of scalars needs is here, so no protobuf library is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

struct Scalar {
  std::string tag;  ///< "train/loss": what is before the slash groups the charts
  float value = 0;
};

/// When and where an event belongs.
struct EventStamp {
  double wall_time = 0;  ///< seconds since 1970, UTC
  std::int64_t step = 0;
};

/// The first event of each file.
std::string version_event(double wall_time);
/// SessionLog START: readers forget what earlier files say of this step and of all after it.
std::string session_start_event(const EventStamp& stamp);
std::string scalars_event(const EventStamp& stamp, const std::vector<Scalar>& scalars);

/// TFRecord: length, its CRC, the bytes, their CRC.
std::string framed(std::string_view event);

}  // namespace ddp
