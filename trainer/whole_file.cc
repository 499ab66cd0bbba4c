#include "trainer/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ddp/error.h"
#include "rendezvous/base/fd.h"

namespace ddp {

std::string read_whole_file(const std::filesystem::path& path) {
  const auto refuse = [](int errno_value) {
    throw Error(std::string("cannot be read: ") + std::strerror(errno_value));
  };
  // Before it is opened, since that waits for the writer of a FIFO. O_NONBLOCK would not wait for a
  // file that somebody else has a lease on, either.
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    refuse(errno);
  }
  if (S_ISDIR(status.st_mode)) {
    refuse(EISDIR);
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error("is not a regular file");
  }
  const ddprun::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    refuse(errno);
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const auto got = ::read(fd.get(), text.data() + done, text.size() - done);
    if (got < 0 && errno != EINTR) {
      refuse(errno);
    }
    if (got == 0) {
      break;  // it was shortened meanwhile
    }
    done += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  text.resize(done);
  return text;
}

}  // namespace ddp
