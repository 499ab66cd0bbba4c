#include "agent/output/log_layout.h"

#include <fmt/core.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
constexpr char kNoFiles[] = "/dev/null";
/// A file name holds 255 bytes; what is behind the job id must fit as well.
constexpr std::size_t kJobIdBytesMax = 200;
/// Of names tried before we say that the directory is full of them.
constexpr int kNamesTriedMax = 16;

/// As Python's tempfile names its directories.
std::string random8() {
  static constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
  unsigned char bytes[8] = {};
  DDP_CHECK(::getrandom(bytes, sizeof bytes, 0) == sizeof bytes,
            "the kernel's generator cannot fail for 8 bytes");
  std::string text;
  for (const unsigned char byte : bytes) {
    text.push_back(kLetters[byte % (sizeof kLetters - 1)]);
  }
  return text;
}

Error cannot(const std::string& what, const fs::path& path, const std::error_code& why) {
  return Error{what + ": " + why.message(), "log directory '" + path.string() + "'",
               "name a directory that this user may write to with --log-dir"};
}

std::error_code last_error() {
  return {errno, std::generic_category()};
}

/// A new directory `<parent>/<begin>_<random8>`, never one that somebody else made.
Result<fs::path> make_new(const fs::path& parent, const std::string& begin, mode_t mode) {
  for (int i = 0; i < kNamesTriedMax; ++i) {
    const fs::path dir = parent / (begin + "_" + random8());
    if (::mkdir(dir.c_str(), mode) == 0) {
      return dir;
    }
    // mkdir(2) tests and claims a name in one call; EEXIST means that the name is another agent's.
    if (errno != EEXIST) {
      break;
    }
  }
  return cannot("cannot make a directory in it", parent, last_error());
}

/// Other users of a shared /tmp neither read the logs nor put files of theirs in their place.
/// Clusters set TMPDIR to directories that do not exist on every node: then it is /tmp, as Python
/// has it.
Result<fs::path> make_temporary_base() {
  std::error_code error;
  if (const char* tmp = std::getenv("TMPDIR"); tmp != nullptr && *tmp != '\0') {
    if (auto base = make_new(fs::absolute(tmp, error), "ddprun", 0700)) {
      return base;
    }
  }
  return make_new("/tmp", "ddprun", 0700);
}

/// Makes the base directory, or says why it cannot be one.
Result<fs::path> make_base(const LogSpec& spec) {
  if (spec.dir.empty()) {
    return make_temporary_base();
  }
  std::error_code error;
  const fs::path base = fs::absolute(spec.dir, error);
  if (fs::exists(base, error) && !fs::is_directory(base, error)) {
    return Error{"it is a file, not a directory", "log directory '" + base.string() + "'",
                 "name another path with --log-dir"};
  }
  // Nodes that share the directory make it at the same time: one that finds it made has no error.
  fs::create_directories(base, error);
  if (error) {
    return cannot("cannot make it", base, error);
  }
  return base;
}

}  // namespace

/// Each agent has a run directory of its own: agents of one host, or on one file system, never
/// write to one file.
Result<LogLayout> LogLayout::create(const LogSpec& spec, const std::string& job_id) {
  if (spec.dir == kNoFiles) {
    return LogLayout({}, {});
  }
  const auto base = make_base(spec);
  if (!base) {
    return base.error();
  }
  std::string name = job_id.substr(0, kJobIdBytesMax);
  std::replace(name.begin(), name.end(), '/', '_');
  DDP_CHECK(name.size() <= kJobIdBytesMax, "a name has room for what follows it");
  DDP_CHECK(name.find('/') == std::string::npos, "a job id leads out of the log directory");
  // 0777 without the umask: --log-dir is the user's choice, and a team may be meant to read it.
  const auto run = make_new(*base, name, 0777);
  if (!run) {
    return run.error();
  }
  return LogLayout(run->string(), spec.dir.empty() ? base->string() : std::string());
}

// rmdir(2) removes no directory that has anything in it.
void LogLayout::remove_unused() const {
  for (const std::string& dir : {run_dir_, temporary_base_}) {
    if (!dir.empty()) {
      (void)::rmdir(dir.c_str());
    }
  }
}

std::string LogLayout::attempt_dir(AttemptNumber attempt) const {
  DDP_CHECK(!run_dir_.empty(), "an attempt has a directory only where there are files");
  return fmt::format("{}/attempt_{}", run_dir_, number(attempt));
}

Result<void> LogLayout::make_attempt(AttemptNumber attempt, int local_world_size) const {
  if (run_dir_.empty()) {
    return {};
  }
  DDP_CHECK(local_world_size > 0, "an attempt has workers on this node");
  const fs::path dir = attempt_dir(attempt);
  std::error_code error;
  fs::remove_all(dir, error);
  if (error) {
    return cannot("cannot remove what an earlier run left there", dir, error);
  }
  // All at once: a full disk fails the attempt before any worker runs.
  for (int local_rank = 0; local_rank < local_world_size; ++local_rank) {
    fs::create_directories(dir / std::to_string(local_rank), error);
    if (error) {
      return cannot("cannot make the directory of an attempt", dir, error);
    }
  }
  return {};
}

WorkerLogs LogLayout::worker(const LogSpec& spec, AttemptNumber attempt, int local_rank) const {
  const bool shown = spec.local_ranks_filter.empty() ||
                     std::find(spec.local_ranks_filter.begin(), spec.local_ranks_filter.end(),
                               local_rank) != spec.local_ranks_filter.end();
  DDP_CHECK(local_rank >= 0, "ranks are counted from 0");
  WorkerLogs logs;
  const std::string dir =
      run_dir_.empty() ? "" : fmt::format("{}/{}", attempt_dir(attempt), local_rank);
  const auto place = [&](Streams stream, const char* file, std::string& path, bool& echo) {
    const bool tee = has(spec.tee.of(local_rank), stream);
    const bool to_file = tee || has(spec.redirects.of(local_rank), stream);
    // The table of docs/logs.md: a tee implies a file, and a rank off --local-ranks-filter has its
    // file but is not shown.
    if (to_file && !dir.empty()) {
      path = dir + "/" + file;
      echo = tee && shown;
    } else if (to_file && !tee) {
      path = kNoFiles;  // redirected away from the console, and there are no files
    } else if (!shown) {
      path = kNoFiles;
    }
  };
  place(Streams::out, "stdout.log", logs.stdout_path, logs.echo_stdout);
  place(Streams::err, "stderr.log", logs.stderr_path, logs.echo_stderr);
  DDP_CHECK(!logs.echo_stdout || !logs.stdout_path.empty(), "what is followed is a file");
  DDP_CHECK(!logs.echo_stderr || !logs.stderr_path.empty(), "and so it is for stderr");
  if (!dir.empty()) {
    logs.error_file = dir + "/error.json";
    logs.stacks_file = dir + "/stacks.txt";
  }
  return logs;
}

std::string LogLayout::filtered_stdout(AttemptNumber attempt) const {
  return run_dir_.empty() ? "" : attempt_dir(attempt) + "/filtered_stdout.log";
}

std::string LogLayout::filtered_stderr(AttemptNumber attempt) const {
  return run_dir_.empty() ? "" : attempt_dir(attempt) + "/filtered_stderr.log";
}

}  // namespace ddprun
