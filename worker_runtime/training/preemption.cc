#include "ddp/preemption.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "rendezvous/contract/environment.h"
#include "worker_runtime/training/progress_impl.h"

namespace ddp {
namespace {

constexpr std::array kPreemptionSignals = {SIGTERM, SIGUSR1};

// A signal handler is given nothing, so what it needs is global.
std::atomic<ddprun::ProgressPage*> page_of_process = nullptr;
std::atomic<bool> signalled = false;
static_assert(std::atomic<bool>::is_always_lock_free);

/// The launcher marks the page before it ends this process: that is no order to save. A second
/// signal means now.
void on_signal(int number) {
  const ddprun::ProgressPage* page = page_of_process.load();
  const bool by_launcher = page != nullptr && page->being_ended.load() != 0;
  if (signalled.exchange(true) || by_launcher) {
    std::signal(number, SIG_DFL);
    std::raise(number);  // comes when this handler returns
  }
}

/// There may be locks or a half-done start anywhere in the process, so nothing of it is run down.
/// The agent is told as by Preemption::leave(), unless it is the agent that ends this process.
void leave_now(int) {
  static constexpr char kText[] = "ddprun worker: left by a signal before the first step\n";
  (void)!::write(STDERR_FILENO, kText, sizeof(kText) - 1);
  ddprun::ProgressPage* const page = page_of_process.load();
  if (page == nullptr || page->being_ended.load() != 0) {
    ::_exit(kLeftStatus);
  }
  page->left = ddprun::ProgressPage::kLeftAlone;
  ::_exit(0);
}

/// The page, for the handler, until a Preemption knows it by its context. Mapped to the process'
/// end.
void find_page() {
  const char* const path = std::getenv(ddprun::env::kProgressChannel);
  if (path == nullptr || *path == '\0' || page_of_process.load() != nullptr) {
    return;
  }
  if (auto channel = ddprun::ProgressChannel::attach(path)) {
    static const ddprun::ProgressChannel kept = std::move(*channel);
    page_of_process = &kept.page();
  }
}

/// A decision of the program, or of its parent, about a signal stays.
void replace_handler(int number, void (*from)(int), void (*to)(int)) {
  struct sigaction now {};
  ::sigaction(number, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != from) {
    return;
  }
  struct sigaction next {};
  next.sa_handler = to;
  // No call of the training is to fail for it. On the alternate stack, where the thread has one
  // (ddp::record() gives it to the main thread): oneDNN's kernels keep an address of the heap in
  // the stack pointer, and a frame that the kernel puts there would overwrite what lies below.
  next.sa_flags = SA_RESTART | SA_ONSTACK;
  sigemptyset(&next.sa_mask);
  ::sigaction(number, &next, nullptr);
}

}  // namespace

void leave_until_preemption() {
  find_page();
  sigset_t delivered;
  sigemptyset(&delivered);
  for (const int number : kPreemptionSignals) {
    replace_handler(number, SIG_DFL, leave_now);
    sigaddset(&delivered, number);
  }
  // Behind the handlers, so that one that waits finds them.
  ::pthread_sigmask(SIG_UNBLOCK, &delivered, nullptr);
}

void end_by_signals() {
  for (const int number : kPreemptionSignals) {
    replace_handler(number, leave_now, SIG_DFL);
  }
}

Preemption::Preemption(const Context& context) : progress_(context.progress()) {
  if (auto* channel = ProgressInside::channel(progress_)) {
    // Before the handlers are there, since they read it.
    page_of_process = &channel->page();
    channel->page().obedience = ddprun::Obedience::obeys;
  }
  for (const int number : kPreemptionSignals) {
    replace_handler(number, leave_now, on_signal);
    replace_handler(number, SIG_DFL, on_signal);
  }
}

Preemption::~Preemption() {
  auto* channel = ProgressInside::channel(progress_);
  // Ranks leave within a step of the first one that was signalled: for the others the scheduler's
  // signal may still be on its way, and must not make a failure of a process that has left. One
  // that hangs in its exit is ended all the same: after its grace the agent sends SIGKILL.
  const bool has_left = channel != nullptr && channel->page().left.load() != 0;
  for (const int number : kPreemptionSignals) {
    replace_handler(number, on_signal, has_left ? SIG_IGN : SIG_DFL);
  }
  if (channel != nullptr) {
    // Neutral from here on: this worker holds up no order to the others (all_obey, stop_plan.h).
    channel->page().obedience = ddprun::Obedience::past;
  }
  page_of_process = nullptr;
}

bool Preemption::asked() const {
  const auto* channel = ProgressInside::channel(progress_);
  return signalled.load(std::memory_order_relaxed) ||
         (channel != nullptr && channel->page().save_now.load() != 0);
}

int Preemption::leave() {
  auto* channel = ProgressInside::channel(progress_);
  if (channel == nullptr) {
    return kLeftStatus;
  }
  // From here on an exit with 0 is a departure in order, and not the end of training.
  channel->page().left = 1;
  return 0;
}

}  // namespace ddp
