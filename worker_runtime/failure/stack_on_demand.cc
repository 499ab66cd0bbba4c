#include "worker_runtime/failure/stack_on_demand.h"

#include <execinfo.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace ddp {
namespace {

constexpr int kMaxFrames = 64;
/// Real-time, so that it means nothing to anybody else; away from both ends, which others take.
int stack_signal() {
  return SIGRTMIN + 9;
}

/// A signal handler is given nothing, so what it needs has to be global.
struct Prepared {
  std::atomic<ddprun::ProgressPage*> page{nullptr};
  char* room = nullptr;
  std::size_t room_bytes = 0;
  int scratch = -1;  ///< a memfd: backtrace_symbols_fd writes text only to a descriptor
  std::atomic_flag busy = ATOMIC_FLAG_INIT;
  struct sigaction before {};
};
Prepared prepared;

/// "thread 4711 (name)\n" without what may allocate.
std::size_t write_title(char* to, std::size_t bytes_max) {
  char name[17] = {};
  ::prctl(PR_GET_NAME, name, 0, 0, 0);
  char digits[24];
  std::size_t count = 0;
  for (auto left = static_cast<unsigned>(::gettid()); left != 0 || count == 0; left /= 10) {
    digits[count++] = static_cast<char>('0' + left % 10);
  }
  std::reverse(digits, digits + count);
  std::size_t size = 0;
  const auto add = [&](const char* text, std::size_t length) {
    length = std::min(length, bytes_max - size);
    std::memcpy(to + size, text, length);
    size += length;
  };
  add("thread ", 7);
  add(digits, count);
  add(" (", 2);
  add(name, std::strlen(name));
  add(")\n", 2);
  return size;
}

/// Runs in whichever thread the agent signals, and must leave it as it was: the worker may go on.
void handle(int /*signal*/, siginfo_t* /*info*/, void* /*context*/) {
  // The code that this interrupts may be about to look at errno.
  const int error = errno;
  Prepared& p = prepared;
  ddprun::ProgressPage* const page = p.page.load();
  if (page == nullptr || p.busy.test_and_set()) {
    return;  // the agent asks one thread at a time; a second one is somebody else's doing
  }
  void* frames[kMaxFrames];
  const int count = ::backtrace(frames, kMaxFrames);
  std::size_t size = std::min<std::size_t>(page->stack_bytes.load(), p.room_bytes);
  size += write_title(p.room + size, p.room_bytes - size);
  // The text of the thread before is in the file; backtrace_symbols_fd(3) writes where the position
  // is.
  if (::ftruncate(p.scratch, 0) == 0 && ::lseek(p.scratch, 0, SEEK_SET) == 0) {
    ::backtrace_symbols_fd(frames, count, p.scratch);
    const ssize_t got = ::pread(p.scratch, p.room + size, p.room_bytes - size, 0);
    size += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  // The size before the count: the agent waits for the count, then reads the text.
  page->stack_bytes.store(size);
  ++page->stacks_taken;
  p.busy.clear();
  errno = error;
}

}  // namespace

StackOnDemand::StackOnDemand(ddprun::ProgressChannel& channel) {
  Prepared& p = prepared;
  struct sigaction now {};
  if (channel.stacks().empty() || p.page.load() != nullptr ||
      ::sigaction(stack_signal(), nullptr, &now) != 0 ||
      (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN)) {
    return;
  }
  p.scratch = ::memfd_create("ddprun-stacks", MFD_CLOEXEC);
  if (p.scratch < 0) {
    return;
  }
  p.room = channel.stacks().data();
  p.room_bytes = channel.stacks().size();
  void* frame = nullptr;
  ::backtrace(&frame, 1);  // loads libgcc_s now
  struct sigaction action {};
  action.sa_sigaction = handle;
  // signal(7): with SA_RESTART most system calls of the interrupted code go on.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  // The page, then the handler, then the number: the agent sends nothing before it reads the last.
  p.page = &channel.page();
  ::sigaction(stack_signal(), &action, &p.before);
  installed_ = true;
  channel.page().stack_signal = static_cast<std::uint64_t>(stack_signal());
}

StackOnDemand::~StackOnDemand() {
  if (!installed_) {
    return;
  }
  Prepared& p = prepared;
  if (ddprun::ProgressPage* const page = p.page.exchange(nullptr); page != nullptr) {
    page->stack_signal = 0;
    // The agent may have sent one already: ignored, and not the end of a process that ends well.
    ::signal(stack_signal(), SIG_IGN);
    ::close(p.scratch);
    p.scratch = -1;
  }
}

}  // namespace ddp
