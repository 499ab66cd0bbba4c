#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <system_error>

#include "ddp/ddp.h"

namespace ddp {
namespace {

constexpr std::string_view kPrefix = ".ddprun-shared-";
/// Far longer than the ranks take to agree.
constexpr std::chrono::minutes kLeftAfter{10};

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

/// What killed ranks left. By the clock of the file system, which `own` has just been written by.
void remove_left_over(const std::filesystem::path& own) {
  std::error_code problem;
  const auto now = std::filesystem::last_write_time(own, problem);
  if (problem) {
    return;
  }
  // Not by a range: its ++ throws, and a file server that fails for a moment ends no training here.
  std::filesystem::directory_iterator entry(own.parent_path(), problem);
  for (; !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem)) {
    if (entry->path().filename().string().starts_with(kPrefix)) {
      std::error_code gone;
      const auto written = entry->last_write_time(gone);
      if (!gone && now - written > kLeftAfter) {
        std::filesystem::remove(entry->path(), gone);
      }
    }
  }
}

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
    left.file = path / (std::string(kPrefix) + token);
    std::ofstream out(left.file);
    out << token << "\n";
    // Where rank 0 cannot write the answer is no, and each node saves to its own disk.
    if (!out.flush()) {
      token.clear();
    } else {
      remove_left_over(left.file);
    }
  }
  token = group.broadcast_bytes(token, 0);
  const bool mine = !token.empty() && holds(path / (std::string(kPrefix) + token), token);
  Tensor seen = Tensor::from({static_cast<std::uint8_t>(mine ? 1 : 0)});
  group.all_reduce(seen, ReduceOp::min);  // also: nobody looks any more
  return seen.item<std::uint8_t>() == 1;
}

}  // namespace ddp
