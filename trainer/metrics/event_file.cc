#include "trainer/metrics/event_file.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <system_error>

namespace ddp {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::filesystem::path next_path(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  std::error_code missing;  // the directory is made with the first file
  for (const auto& entry : std::filesystem::directory_iterator(directory, missing)) {
    names.push_back(entry.path().filename().string());
  }
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return directory /
         next_event_file_name(names, static_cast<std::int64_t>(wall_time()), host, ::getpid());
}

}  // namespace

/// TensorBoard reads the files of a directory in the order of their names. So a new one comes after
/// all others, even where a clock was set back between two attempts.
std::string next_event_file_name(const std::vector<std::string>& names, std::int64_t now_s,
                                 const std::string& host, std::int64_t pid) {
  auto number = now_s;
  for (const std::string_view name : names) {
    if (name.starts_with(kPrefix)) {
      const auto digits = name.substr(kPrefix.size());
      std::int64_t before = 0;
      std::from_chars(digits.data(), digits.data() + digits.size(), before);
      number = std::max(number, before + 1);
    }
  }
  char text[32];
  std::snprintf(text, sizeof text, "%010lld", static_cast<long long>(number));
  return fmt::format("{}{}.{}.{}.0", kPrefix, text, host, pid);
}

/// The version comes first: without it the reader takes the file for one of an old format.
EventFile::EventFile(const std::filesystem::path& directory) : file_(next_path(directory)) {
  file_.append(framed(version_event(wall_time())));
}

/// The reader drops all points from this step on: they are about to be drawn again.
void EventFile::start_at(std::int64_t step) {
  file_.append(framed(session_start_event({wall_time(), step})));
}

void EventFile::add(std::int64_t step, const std::vector<Scalar>& scalars) {
  file_.append(framed(scalars_event({wall_time(), step}, scalars)));
}

}  // namespace ddp
