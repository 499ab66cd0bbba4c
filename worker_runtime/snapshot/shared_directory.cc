#include <unistd.h>

#include <fstream>
#include <random>
#include <system_error>

#include "ddp/ddp.h"

namespace ddp {
namespace {

std::string random_token() {
  std::random_device random;  // allowed: a name nobody else has, not data
  std::string token;
  for (int i = 0; i < 8; ++i) {
    constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuv";
    for (unsigned word = random(), k = 0; k < 4; ++k, word /= 32) {
      token += kDigits[word % 32];
    }
  }
  return token;
}

/// True when `file` holds `token`.
bool holds(const std::filesystem::path& file, const std::string& token) {
  std::ifstream in(file);
  std::string found;
  return in && std::getline(in, found) && found == token;
}

/// Removes the file at the end, whether the ranks have agreed or one of them was lost meanwhile.
struct Removed {
  std::filesystem::path file;
  ~Removed() {
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
  }
};

}  // namespace

bool is_shared_directory(const Context& context, const std::filesystem::path& path) {
  // By experiment: neither the path nor the kind of file system shows whether two hosts see one
  // directory.
  ProcessGroup& group = context.group();
  std::string token;
  Removed left;
  if (context.rank() == 0) {
    token = random_token();
    // A new name each time: no cache of a network file system can know that it is not there.
    left.file = path / (".ddprun-shared-" + token);
    std::ofstream out(left.file);
    out << token << "\n";
    // Where rank 0 cannot write the answer is no, and each node saves to its own disk.
    if (!out.flush()) {
      token.clear();
    }
  }
  token = group.broadcast_bytes(token, 0);
  const bool mine = !token.empty() && holds(path / (".ddprun-shared-" + token), token);
  Tensor seen = Tensor::from({static_cast<std::uint8_t>(mine ? 1 : 0)});
  group.all_reduce(seen, ReduceOp::min);  // also: nobody looks any more
  return seen.item<std::uint8_t>() == 1;
}

}  // namespace ddp
