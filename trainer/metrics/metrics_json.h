// The lines of DIR/rank-N.jsonl: one JSON object each, ends with a line feed. Pure. docs/metrics.md
// lists the fields. A number that is not finite becomes null: JSON has no word for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trainer/metrics/step_record.h"

namespace ddp {

/// The first line of each attempt.
struct RunRecord {
  std::string experiment = {};
  int rank = 0;
  int world_size = 1;
  std::int64_t attempt = 0;
  std::string unit = {};  ///< of units_per_second
  std::int64_t total_steps = 0;
};

/// `time`: seconds since 1970, UTC.
std::string run_line(const RunRecord& run, double time);
std::string step_line(const StepRecord& record, std::int64_t attempt, double time);
std::string validation_line(const ValidationRecord& record, std::int64_t attempt, double time);

/// The largest attempt that any whole line of `text` names; -1 when none does. Other text is passed
/// over: the last line of a worker that was killed may be torn.
std::int64_t last_attempt(std::string_view text);

}  // namespace ddp
