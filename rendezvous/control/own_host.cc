#include "rendezvous/control/own_host.h"

#include <sys/stat.h>

#include <fstream>
#include <string>

namespace ddprun {
namespace {

/// The first 64 bits of a random number, which the file has as hexadecimal digits: boot_id with
/// dashes (a UUID), machine-id without.
std::uint64_t random_number_in(const char* path) {
  constexpr std::size_t kDigits = 16;
  std::ifstream file(path);
  std::string digits;
  for (char one = 0; digits.size() < kDigits && file.get(one);) {
    if (one != '-') {
      digits.push_back(one);
    }
  }
  const bool whole =
      digits.size() == kDigits && digits.find_first_not_of("0123456789abcdef") == std::string::npos;
  return whole ? std::stoull(digits, nullptr, 16) : 0;
}

}  // namespace

HostIdentity own_host() {
  // The inode number names a namespace as long as it exists (namespaces(7)). Two containers of one
  // host have different ones, so a port in one says nothing about the other.
  struct stat network {};
  const bool known = ::stat("/proc/self/ns/net", &network) == 0;
  return {random_number_in("/proc/sys/kernel/random/boot_id"), known ? network.st_ino : 0,
          random_number_in("/etc/machine-id")};
}

}  // namespace ddprun
