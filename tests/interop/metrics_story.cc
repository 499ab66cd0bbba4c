// metrics_story OPTIONS: a training without the training. It gives TrainingLog what a trainer would
// tell of steps FIRST to LAST, so that tests of what is written need no minutes.
//   metrics_story RANK ATTEMPT FIRST LAST TOTAL LOG_EVERY DIR [TENSORBOARD]
// Loss of step s: 10 / s. After step 50 it says a line and tells a validation. With the variable
// STORY_PAUSE_MS set, each step takes so long.
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "ddp/record.h"
#include "trainer/metrics/training_log.h"

namespace {

constexpr std::int64_t kValidated = 50;

int tell(int argc, char** argv) {
  if (argc < 8) {
    std::fprintf(stderr,
                 "metrics_story RANK ATTEMPT FIRST LAST TOTAL LOG_EVERY DIR [TENSORBOARD]\n");
    return 2;
  }
  ddp::TrainingLogOptions options;
  options.rank = std::atoi(argv[1]);
  options.world_size = 2;
  options.experiment = "story";
  options.attempt = std::atoll(argv[2]);
  options.total_steps = std::atoll(argv[5]);
  options.log_every = std::atoll(argv[6]);
  options.directory = argv[7];
  if (argc > 8) {
    options.tensorboard = argv[8];
  }
  options.unit = "tokens";
  options.terminal = ddp::stdout_is_terminal();
  ddp::TrainingLog log(options);
  const char* pause = std::getenv("STORY_PAUSE_MS");
  for (std::int64_t step = std::atoll(argv[3]); step <= std::atoll(argv[4]); ++step) {
    if (pause != nullptr) {
      ::poll(nullptr, 0, std::atoi(pause));
    }
    log.step({.step = step,
              .epoch = step / 100,
              .loss = 10.0 / static_cast<double>(step),
              .learning_rate = 1e-3,
              .units_per_second = 20000 + 100.0 * static_cast<double>(step % 7),
              .data_s = 0.001,
              .forward_s = 0.01,
              .backward_s = 0.02,
              .update_s = 0.003,
              .sync_s = 0.004,
              .snapshot_s = 0,
              .memory_bytes = 100 << 20});
    if (step == kValidated) {
      log.say("half of it is done");
      log.validation({.step = step, .epoch = 0, .loss = 0.5, .accuracy = 0.25, .seconds = 1});
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::record(argc, argv, tell);
}
