#include "worker_runtime/failure/recording.h"

#include <utility>
#include <vector>

namespace ddp {
namespace {

thread_local bool recording = false;
// Also goes at the thread's end: std::exit() leaves record() without its end.
thread_local std::vector<std::shared_ptr<void>> kept;

}  // namespace

Recording::Recording() : before_(std::exchange(recording, true)) {}

Recording::~Recording() {
  recording = before_;
  let_go_of_kept();
}

bool is_recording() {
  return recording;
}

void keep_until_recorded(std::shared_ptr<void> what) {
  kept.push_back(std::move(what));
}

void let_go_of_kept() {
  kept.clear();
}

}  // namespace ddp
