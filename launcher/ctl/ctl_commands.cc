#include "launcher/ctl/ctl_commands.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/ctl/agent_client.h"
#include "launcher/ctl/ctl_exit.h"
#include "launcher/ctl/gpu_usage.h"
#include "launcher/ctl/log_reader.h"
#include "launcher/ctl/status_view.h"
#include "launcher/ctl/top_view.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;
using Failed = std::optional<CtlFailure>;

/// A file that grows wakes nobody who only reads it; a person sees no difference.
constexpr int kLogPauseMs = 250;
/// The agent is asked at every so many looks whether there is another attempt.
constexpr int kLooksPerQuestion = 4;

/// Nothing, or why stdout takes no more: a reader that has left is no mistake (`ddpctl logs |
/// head`).
Failed write_out(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return std::nullopt;
  }
  return CtlFailure{errno_error(errno, "cannot write", "stdout"), kCtlFailed};
}

/// An answer that is no JSON object comes from something else than an agent of ours.
std::variant<json, CtlFailure> json_from(const ChosenAgent& agent, const std::string& target) {
  auto body = body_from(agent, {"GET", target});
  if (auto* failure = std::get_if<CtlFailure>(&body)) {
    return std::move(*failure);
  }
  json told = json::parse(std::get<std::string>(body), nullptr, false);
  if (!told.is_object()) {
    return CtlFailure{Error{"the agent's answer is no JSON", "", "use the ddpctl of its version"},
                      kCtlFailed};
  }
  return told;
}

/// --json is the agent's own text, byte by byte: whoever reads it depends on no version of ddpctl.
Failed show_status(const CtlOptions& options, const ChosenAgent& agent) {
  if (options.json) {
    auto body = body_from(agent, {"GET", "/status.json"});
    auto* failure = std::get_if<CtlFailure>(&body);
    return failure != nullptr ? std::move(*failure) : write_out(std::get<std::string>(body));
  }
  auto status = json_from(agent, "/status.json");
  auto* failure = std::get_if<CtlFailure>(&status);
  return failure != nullptr ? std::move(*failure) : write_out(status_text(std::get<json>(status)));
}

/// What comes of it is told by the job itself: its agents log it, and their exit codes say how it
/// ended.
Failed ask(const CtlOptions& options, const ChosenAgent& agent) {
  // The agent knows which node it is of, and its coordinator knows the others.
  const std::string node = options.node.value_or("");
  auto body = body_from(agent, {"POST", "/" + options.verb, node});
  if (auto* failure = std::get_if<CtlFailure>(&body)) {
    return std::move(*failure);
  }
  // It is asked, and not done: to save and to stop takes as long as the workers take.
  const std::string what = options.verb == "save"   ? "have all workers save and the job end"
                           : options.verb == "stop" ? "end the job"
                           : node.empty()           ? "let this node leave the job"
                                          : "let the node " + printable(node) + " leave the job";
  const auto* const here = std::get_if<FoundAgent>(&agent);
  const std::string asked =
      here != nullptr ? "agent " + std::to_string(here->name.pid) : name_of(agent);
  return write_out(asked + " is asked to " + what + "\n");
}

/// What the collector has appended; empty where it cannot be read.
std::string appended(const std::string& path, std::int64_t from) {
  std::string text;
  char bytes[16 * 1024];
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  ssize_t got = 0;
  while (fd && (got = ::pread(fd.get(), bytes, sizeof bytes, from)) > 0) {
    text.append(bytes, static_cast<std::size_t>(got));
    from += got;
  }
  return text;
}

/// The file has the stacks of all threads, the answer those of the main one: it is all that there
/// is where workers have no files.
Failed show_stacks(const CtlOptions& options, const ChosenAgent& agent) {
  auto told =
      json_from(agent, options.rank ? "/stacks?rank=" + std::to_string(*options.rank) : "/stacks");
  if (auto* failure = std::get_if<CtlFailure>(&told)) {
    return std::move(*failure);
  }
  std::string text;
  for (const json& stack : std::get<json>(told).value("stacks", json::array())) {
    // A file of another host's view (a container's) cannot be read here: then the frames remain.
    const bool has_file = !is_remote(agent) && stack.value("file", json()).is_string();
    const std::string file = has_file ? stack["file"] : "";
    const std::string all =
        file.empty() ? "" : appended(file, stack.value("file_from", std::int64_t{0}));
    text += all.empty() ? "rank " + text_in(stack, "rank") + ", pid " + text_in(stack, "pid") +
                              ":\n" + stack.value("frames", "") + "\n"
                        : all + "(in " + file + ")\n\n";
  }
  return write_out(text);
}

/// Without these options workers write to the agent's own stdout and stderr.
CtlFailure no_files(const CtlOptions& options) {
  return {Error{options.rank ? "no worker of this rank writes to files here"
                             : "no worker of this node writes to files",
                options.rank ? "rank " + std::to_string(*options.rank) : "",
                "start ddprun with --redirects 3 or --tee 3, and --log-dir DIR"},
          kCtlFailed};
}

bool has_rank(const json& status, int rank) {
  const json workers = status.value("workers", json::array());
  return std::any_of(workers.begin(), workers.end(),
                     [text = std::to_string(rank)](const json& worker) {
                       return text_in(worker, "rank") == text;
                     });
}

CtlFailure no_worker_of(int rank) {
  return {Error{"no worker of this rank is on that node", "rank " + std::to_string(rank),
                "ddpctl status tells which node has it"},
          kCtlFailed};
}

/// Takes over the files of the attempt that runs now; `begins`: of the first one. The agent may
/// have none yet: while nodes gather, and for a moment between two attempts.
Failed take_logs(const json& status, const CtlOptions& options, bool begins, LogReader& reader) {
  const bool any = !status.value("workers", json::array()).empty();
  if (!any && options.follow) {
    return std::nullopt;
  }
  if (reader.take(status, options.rank) > 0 || !begins) {
    return std::nullopt;
  }
  if (!any) {
    return CtlFailure{Error{"no worker runs here yet", "", "ddpctl logs -f waits for them"},
                      kCtlFailed};
  }
  if (options.rank && !has_rank(status, *options.rank)) {
    return no_worker_of(*options.rank);
  }
  return no_files(options);
}

/// Nothing, or that no worker there has this rank. One that is there may have written nothing yet.
Failed check_rank_is_there(const ChosenAgent& agent, int rank) {
  const auto status = json_from(agent, "/status.json");
  if (const auto* failure = std::get_if<CtlFailure>(&status)) {
    return *failure;
  }
  return has_rank(std::get<json>(status), rank) ? std::nullopt : Failed(no_worker_of(rank));
}

/// Files of another machine cannot be followed here; its agent reads their ends.
Failed show_last_lines(const CtlOptions& options, const ChosenAgent& agent) {
  if (options.follow) {
    return CtlFailure{Error{"the files of another machine cannot be followed", name_of(agent),
                            "leave out -f, or run ddpctl logs -f on that node"},
                      kCtlFailed};
  }
  auto body = body_from(agent, {"GET", "/log.txt"});
  if (auto* failure = std::get_if<CtlFailure>(&body)) {
    return std::move(*failure);
  }
  const std::string prefix = options.rank ? "[rank " + std::to_string(*options.rank) + " " : "";
  std::string text;
  for (const std::string_view line : words_of(std::get<std::string>(body), "\n")) {
    text += line.starts_with(prefix) ? printable(std::string(line)) + "\n" : "";
  }
  if (options.rank && text.empty()) {
    if (auto missing = check_rank_is_there(agent, *options.rank)) {
      return missing;
    }
  }
  return write_out(text);
}

/// Ends with the agent, or when stdout takes no more. An agent that stands still may go on, and its
/// workers write without it.
Failed show_logs(const CtlOptions& options, const ChosenAgent& agent) {
  Failed failed;
  LogReader reader([&failed](const std::string& line) {
    failed = failed ? std::move(failed) : write_out(line);
  });
  bool has_files = false;
  for (int look = 0; !failed; ++look) {
    if (look % kLooksPerQuestion == 0) {
      auto status = json_from(agent, "/status.json");
      auto* failure = std::get_if<CtlFailure>(&status);
      // The first question must be answered: a wrong --job is no log that has ended.
      if (failure != nullptr && look == 0) {
        return std::move(*failure);
      }
      if (failure != nullptr && failure->exit_code != kCtlNoAnswer) {
        reader.show(true);
        reader.show_later();
        if (!failed && reader.unread()) {
          return CtlFailure{*reader.unread(), kCtlFailed};
        }
        const bool ended = failure->exit_code == kCtlNoAgent;  // and so have its workers
        return failed || ended ? std::move(failed) : std::move(*failure);
      }
      if (failure == nullptr) {
        auto none = take_logs(std::get<json>(status), options, !has_files, reader);
        failed = failed ? std::move(failed) : std::move(none);
        has_files = has_files || reader.has_files();
      }
    }
    reader.show(!options.follow);
    // A follower goes on: one worker's file may be gone, and the others' still grow.
    if (!options.follow && !failed && reader.unread()) {
      return CtlFailure{*reader.unread(), kCtlFailed};
    }
    if (!options.follow) {
      return failed;
    }
    ::poll(nullptr, 0, kLogPauseMs);
  }
  return failed;
}

/// Ends after --count looks, with the agent, or by a signal.
Failed show_top(const CtlOptions& options, const ChosenAgent& agent) {
  // Those of this machine say nothing about another's.
  const std::optional<GpuUsageReader> gpus =
      is_remote(agent) ? std::nullopt : std::optional<GpuUsageReader>(std::in_place);
  // On a terminal each look takes the place of the one before.
  const std::string clear = ::isatty(STDOUT_FILENO) != 0 ? "\x1b[H\x1b[2J" : "";
  json before;
  Clock::time_point looked;
  for (int look = 1;; ++look) {
    auto status = json_from(agent, "/status.json");
    if (auto* failure = std::get_if<CtlFailure>(&status)) {
      return failure->exit_code == kCtlNoAgent && look > 1 ? Failed() : std::move(*failure);
    }
    const auto now = Clock::now();
    auto failed = write_out(clear + top_text(before, std::get<json>(status), now - looked,
                                             gpus ? gpus->read() : std::vector<GpuUsage>()));
    if (failed || look == options.count) {
      return failed;
    }
    before = std::move(std::get<json>(status));
    looked = now;
    constexpr double kMsPerSecond = 1'000;
    ::poll(nullptr, 0, static_cast<int>(options.interval_seconds * kMsPerSecond));
  }
}

}  // namespace

/// Verbs that only look have functions of their own; the others are one question.
std::optional<CtlFailure> carry_out(const CtlOptions& options, const ChosenAgent& agent) {
  if (options.verb == "status") {
    return show_status(options, agent);
  }
  if (options.verb == "logs") {
    return is_remote(agent) ? show_last_lines(options, agent) : show_logs(options, agent);
  }
  if (options.verb == "stacks") {
    return show_stacks(options, agent);
  }
  if (options.verb == "top") {
    return show_top(options, agent);
  }
  DDP_CHECK(options.verb == "drain" || options.verb == "save" || options.verb == "stop",
            "the parser lets no other verb through");
  return ask(options, agent);
}

}  // namespace ddprun
