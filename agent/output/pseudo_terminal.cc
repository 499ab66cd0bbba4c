#include "agent/output/pseudo_terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <cerrno>

namespace ddprun {

Result<PseudoTerminal> open_pseudo_terminal(int like) {
  PseudoTerminal made;
  // Not posix_openpt(): it does not take O_NONBLOCK everywhere, nor O_CLOEXEC.
  made.ours.reset(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  if (!made.ours) {
    return errno_error(errno, "cannot make a terminal for a worker", "/dev/ptmx");
  }
  // What unlockpt(3) does: the other end cannot be opened before.
  int locked = 0;
  if (::ioctl(made.ours.get(), TIOCSPTLCK, &locked) != 0) {
    return errno_error(errno, "cannot make a terminal for a worker", "/dev/ptmx");
  }
  // Not by its name: the devpts that this process sees need not be the one of /dev/ptmx.
  made.workers.reset(::ioctl(made.ours.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!made.workers) {
    return errno_error(errno, "cannot open a worker's terminal", "/dev/ptmx");
  }
  termios attributes{};
  if (::tcgetattr(like, &attributes) == 0) {
    attributes.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    // Input never comes this way, since a worker's stdin is inherited: nothing is to be echoed.
    attributes.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHONL);
    if (::tcsetattr(made.workers.get(), TCSANOW, &attributes) != 0) {
      return errno_error(errno, "cannot set up a worker's terminal", "/dev/ptmx");
    }
  }
  copy_window_size(like, made.ours.get());
  return made;
}

void copy_window_size(int like, int ours) {
  winsize size{};
  // The terminal controls no session, so the kernel sends no SIGWINCH: the attempt does.
  if (::ioctl(like, TIOCGWINSZ, &size) == 0) {
    ::ioctl(ours, TIOCSWINSZ, &size);
  }
}

}  // namespace ddprun
