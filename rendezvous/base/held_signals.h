// HeldSignals: while it lives, no signal interrupts this thread, and none will a thread that begins
// meanwhile: that one inherits the mask for good.
//
// For Asio's resolver, which begins a thread with the first name that it is asked for and ends it
// with the io_context. If that thread took signals, one that comes while an agent ends would kill
// it: by then the handlers are gone, and only the main thread holds signals back.
#pragma once

#include <csignal>

namespace ddprun {

class HeldSignals {
 public:
  HeldSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace ddprun
