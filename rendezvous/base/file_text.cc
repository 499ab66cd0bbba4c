#include "rendezvous/base/file_text.h"

#include <fcntl.h>
#include <unistd.h>

#include "rendezvous/base/fd.h"

namespace ddprun {

std::optional<std::string> read_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    return std::nullopt;
  }
  std::string text;
  // Files of /proc have a size of 0 for stat(2), so this one is read until it ends.
  char buffer[4096];
  while (true) {
    const ssize_t got = ::read(file.get(), buffer, sizeof(buffer));
    if (got <= 0) {
      return got == 0 ? std::optional(text) : std::nullopt;
    }
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace ddprun
