// SignalRecord: writes the error file from within a fatal signal. Everything it needs is made ready
// beforehand; the handler allocates nothing, locks nothing and calls async-signal-safe functions
// only. It then lets the signal do its work, so the exit status stays the signal.
#pragma once

#include <string>

namespace ddp {

/// While it lives, SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT are recorded at `path` (empty: on
/// stderr alone). One at a time: signal handlers belong to the process. A handler that somebody
/// else had installed before (a sanitizer, say) is called afterwards.
class SignalRecord {
 public:
  explicit SignalRecord(const std::string& path);
  ~SignalRecord();
  SignalRecord(const SignalRecord&) = delete;
  SignalRecord& operator=(const SignalRecord&) = delete;
};

/// What the record of a following SIGABRT is to say beyond the bare name. The first note counts.
void note_for_signal(const char* text) noexcept;

}  // namespace ddp
