#include "worker_runtime/failure/signal_record.h"

#include <execinfo.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

namespace ddp {
namespace {

constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr const char* kNames[] = {"SIGSEGV: segmentation fault", "SIGBUS: bus error",
                                  "SIGFPE: arithmetic error", "SIGILL: illegal instruction",
                                  "SIGABRT: abort"};
constexpr int kMaxFrames = 64;

/// Bounded text, for a place where nothing may be allocated. What does not fit is cut off.
template <std::size_t kSize>
class FixedText {
 public:
  void clear() { size_ = 0; }
  void add(const char* text) { add(text, std::strlen(text)); }
  void add(const char* text, std::size_t size) {
    for (std::size_t i = 0; i < size && size_ < kSize; ++i) {
      data_[size_++] = text[i];
    }
  }
  void add_number(std::uint64_t value, unsigned base, std::size_t digits = 1) {
    char reversed[24];
    std::size_t count = 0;
    for (; value != 0 || count < digits; value /= base) {
      reversed[count++] = "0123456789abcdef"[value % base];
    }
    while (count > 0) {
      add(&reversed[--count], 1);
    }
  }
  /// As the inside of a JSON string. Bytes beyond ASCII are taken for UTF-8.
  void add_json(const char* text, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      const char c = text[i];
      if (c == '\n') {
        add("\\n");
      } else if (c == '"' || c == '\\') {
        add("\\");
        add(&c, 1);
      } else if (static_cast<unsigned char>(c) < 0x20) {
        add(" ");
      } else {
        add(&c, 1);
      }
    }
  }
  [[nodiscard]] const char* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  char data_[kSize];
  std::size_t size_ = 0;
};

/// A signal handler is given nothing, so what it needs has to be global. Made by SignalRecord.
struct Prepared {
  char path[PATH_MAX];
  int scratch = -1;  ///< a memfd: backtrace_symbols_fd writes text only to a descriptor
  char stack_text[16 * 1024];
  void* frames[kMaxFrames];
  char note[1024];
  std::atomic<bool> noted{false};
  std::atomic<bool> entered{false};
  struct sigaction before[kSignals.size()];
  FixedText<1536> message;
  FixedText<40 * 1024> json;  ///< room for a stack text of which every byte is escaped
  alignas(16) char alternate_stack[64 * 1024];
};
Prepared prepared;

void write_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(fd, data, size);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return;
    }
    data += written;
    size -= static_cast<std::size_t>(written);
  }
}

/// sigaction(2): si_code is above 0 for a fault that the kernel raised, else a process sent the
/// signal.
bool was_sent(const siginfo_t* info) {
  return info->si_code <= 0;
}

void make_message(std::size_t which, const siginfo_t* info) {
  Prepared& p = prepared;
  p.message.clear();
  p.message.add(kNames[which]);
  // An abort has no address; the note has what led to it.
  if (kSignals[which] == SIGABRT) {
    if (p.noted.load()) {
      p.message.add(": ");
      p.message.add(p.note);
    }
  } else if (was_sent(info)) {
    p.message.add(", sent by process ");
    p.message.add_number(static_cast<std::uint64_t>(info->si_pid), 10);
  } else {
    p.message.add(" at address 0x");
    p.message.add_number(reinterpret_cast<std::uintptr_t>(info->si_addr), 16);
  }
}

std::size_t take_stack() {
  Prepared& p = prepared;
  // backtrace(3) allocates in its first call only, which the constructor makes.
  const int count = ::backtrace(p.frames, kMaxFrames);
  if (p.scratch < 0 || ::ftruncate(p.scratch, 0) != 0) {
    return 0;
  }
  ::lseek(p.scratch, 0, SEEK_SET);
  ::backtrace_symbols_fd(p.frames, count, p.scratch);
  const ssize_t size = ::pread(p.scratch, p.stack_text, sizeof(p.stack_text), 0);
  return size > 0 ? static_cast<std::size_t>(size) : 0;
}

/// The same form as ddprun::to_json(ErrorRecord), which allocates.
void write_error_file(std::size_t stack_size) {
  Prepared& p = prepared;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const auto seconds = static_cast<std::uint64_t>(now.tv_sec);
  p.json.clear();
  p.json.add(R"({"message":{"message":")");
  p.json.add_json(p.message.data(), p.message.size());
  p.json.add(R"(","extraInfo":{"py_callstack":")");
  p.json.add_json(p.stack_text, stack_size);
  p.json.add(R"(","timestamp":")");
  p.json.add_number(seconds, 10);
  p.json.add(R"("},"ddprun":{"peer_lost":false,"time_us":)");
  p.json.add_number(seconds, 10);
  // Six digits directly behind the seconds make one number of microseconds.
  p.json.add_number(static_cast<std::uint64_t>(now.tv_nsec / 1000), 10, 6);
  p.json.add("}}}");
  const int fd = ::open(p.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd >= 0) {
    write_all(fd, p.json.data(), p.json.size());
    ::close(fd);
  }
}

/// Allocates nothing: apart from one line of text, all that it uses is in `prepared`.
void handle(int signal, siginfo_t* info, void*) {
  std::size_t which = 0;
  while (which + 1 < kSignals.size() && kSignals[which] != signal) {
    ++which;
  }
  // A second fault, in here or in another thread, goes straight to its end.
  if (!prepared.entered.exchange(true)) {
    make_message(which, info);
    const std::size_t stack_size = take_stack();
    FixedText<1600> line;
    line.add("ddprun worker: ");
    line.add(prepared.message.data(), prepared.message.size());
    line.add("\n");
    // stderr first: it is there also when the disk is full.
    write_all(STDERR_FILENO, line.data(), line.size());
    if (prepared.path[0] != 0) {
      write_error_file(stack_size);
    }
  }
  // The handler before ours, as a rule the default, ends the process: a fault comes again when we
  // return to it; a signal that was sent has to be sent again.
  ::sigaction(signal, &prepared.before[which], nullptr);
  if (was_sent(info)) {
    ::raise(signal);
  }
}

}  // namespace

SignalRecord::SignalRecord(const std::string& path) {
  Prepared& p = prepared;
  // Copied: in the handler neither getenv(3) nor a std::string may be used.
  const std::size_t length = std::min(path.size(), sizeof(p.path) - 1);
  std::memcpy(p.path, path.data(), length);
  p.path[length] = 0;
  p.scratch = ::memfd_create("ddprun-stack", MFD_CLOEXEC);
  p.entered = false;
  p.noted = false;
  ::backtrace(p.frames, kMaxFrames);  // loads libgcc_s now
  // A stack overflow leaves no room for a handler on the same stack.
  stack_t alternate{};
  alternate.ss_sp = p.alternate_stack;
  alternate.ss_size = sizeof(p.alternate_stack);
  // sigaltstack(2) holds for the calling thread: an overflow in another thread is not recorded.
  ::sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &action, &p.before[i]);
  }
}

SignalRecord::~SignalRecord() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &prepared.before[i], nullptr);
  }
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  ::sigaltstack(&none, nullptr);
  ::close(prepared.scratch);
  prepared.scratch = -1;
}

void note_for_signal(const char* text) noexcept {
  if (!prepared.noted.exchange(true)) {
    // The last byte of `note` is 0 from the start, and never written.
    std::strncpy(prepared.note, text, sizeof(prepared.note) - 1);
  }
}

}  // namespace ddp
