// The line of progress that rank 0 prints every --log-freq steps.
#pragma once

#include <string>

#include "trainer/cosine_schedule.h"
#include "trainer/gpt2/step_meter.h"
#include "trainer/metrics/step_record.h"

namespace ddp {

/// Of the whole job.
struct Progressed {
  double loss = 0;    ///< mean of a target, since the line before
  double norm = 0;    ///< of the newest gradients
  double tokens = 0;  ///< since the line before
};

/// `step`: the newest, of which the line has number, epoch and rate. `times`: of this rank, since
/// the line before.
std::string progress_line(const StepRecord& step, const CosineSchedule& schedule,
                          const Progressed& job, const StepTimes& times);

}  // namespace ddp
