// Recording: the time in which a thread is under record(). What ends by an exception meanwhile, and
// whose end others would see, can be kept until the error file is written.
#pragma once

#include <memory>

namespace ddp {

class Recording {
 public:
  Recording();
  /// Lets go of what was kept.
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  bool before_;  ///< record() within record()
};

/// Of this thread.
[[nodiscard]] bool is_recording();
/// `what` lives until this thread's record is written, or until let_go_of_kept().
void keep_until_recorded(std::shared_ptr<void> what);
/// For a program that has caught the exception and begins anew.
void let_go_of_kept();

}  // namespace ddp
