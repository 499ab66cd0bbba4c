#include "rendezvous/base/file_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/base/fd.h"

namespace ddprun {
namespace {

/// Far more than any file that is read here has. PBS's node file has a line for each process.
constexpr std::size_t kBytesMax = std::size_t{64} << 20;

}  // namespace

std::optional<std::string> read_file(const std::string& path) {
  // A user's variable may name anything: a FIFO would let us wait, and a device never ends.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  std::string text;
  // Files of /proc have a size of 0 for stat(2), so this one is read until it ends.
  char buffer[4096];
  while (true) {
    const ssize_t got = ::read(file.get(), buffer, sizeof(buffer));
    if (got <= 0 || text.size() > kBytesMax) {
      return got == 0 ? std::optional(text) : std::nullopt;
    }
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace ddprun
