#include "agent/summary.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <sstream>
#include <vector>

#include "agent/signals.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/contract/error_file.h"

namespace ddprun {
namespace {

constexpr std::size_t kLabelWidth = 10;    // torchrun pads its labels to this
constexpr std::size_t kRuleWidthMax = 60;  // and draws no longer line than this

std::string local_time(std::chrono::sys_time<std::chrono::microseconds> time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(time));
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d_%H:%M:%S", &parts);
  return text;
}

std::string indented(const std::string& text, const std::string& indent) {
  std::string out;
  for (const char c : text) {
    out.push_back(c);
    if (c == '\n') {
      out += indent;
    }
  }
  return out;
}

std::string_view blame_text(Blame blame) {
  switch (blame) {
    case Blame::cause:
      return "cause";
    case Blame::victim:
      return "victim (failed after the cause, or for the loss of a peer)";
    case Blame::stopped_by_us:
      return "stopped by ddprun after the cause";
  }
  return "?";
}

/// torchrun's block of one failure, with our blame and the last lines of stderr.
std::string block(const FailureRecord& record, std::size_t index, bool with_stderr) {
  std::ostringstream out;
  const auto line = [&](const char* label, const std::string& value) {
    std::string padded = label;
    padded.resize(std::max(kLabelWidth, padded.size()), ' ');
    out << "  " << padded << ": " << value << "\n";
  };
  std::string traceback = record.message;
  if (const auto parsed = parse_error_record(record.error_file_json);
      parsed && !parsed->callstack.empty()) {
    traceback = parsed->callstack;
    if (traceback.find(parsed->message) == std::string::npos) {
      traceback = parsed->message + "\n" + traceback;
    }
  }
  while (!traceback.empty() && traceback.back() == '\n') {
    traceback.pop_back();
  }
  out << "[" << index << "]:\n";
  line("time", local_time(record.time));
  line("host", record.node);
  line("rank",
       std::to_string(record.rank) + " (local_rank: " + std::to_string(record.local_rank) + ")");
  line("exitcode",
       std::to_string(record.exit.torchrun_code()) + " (pid: " + std::to_string(record.pid) + ")");
  line("blame", std::string(blame_text(record.blame)));
  line("error_file", record.error_file_path.empty() ? "<N/A>" : record.error_file_path);
  line("traceback", indented(traceback, "  "));
  if (with_stderr && !record.stderr_tail.empty()) {
    std::string tail = record.stderr_tail;
    while (!tail.empty() && tail.back() == '\n') {
      tail.pop_back();
    }
    out << "  last lines of stderr:\n    " << indented(tail, "    ") << "\n";
  }
  return out.str();
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    longest = std::max(longest, line.size());
  }
  return longest;
}

/// The report of the incident that ended the job.
std::string failure_report(const Incident& incident, const std::string& title) {
  const std::string name = title + " FAILED";
  std::string others;
  for (std::size_t i = 1; i < incident.records.size(); ++i) {
    others += block(incident.records[i], i, false);
  }
  if (incident.records_dropped > 0) {
    others += "  (and " + std::to_string(incident.records_dropped) + " more)\n";
  }
  if (others.empty()) {
    others = "  <NO_OTHER_FAILURES>\n";
  }
  const std::string root = block(incident.records.front(), 0, true);
  const std::size_t width =
      std::min(kRuleWidthMax, std::max({name.size(), longest_line(others), longest_line(root)}));
  const std::string heavy(width, '=');
  const std::string light(width, '-');
  std::string out = "\n" + heavy + "\n" + name + "\n" + light + "\nFailures:\n" + others + light;
  out += "\nRoot Cause (first observed failure):\n" + root + heavy + "\n";
  return out;
}

long long milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

std::string incident_line(const Incident& incident) {
  std::string line =
      "  attempt " + std::to_string(number(incident.attempt)) + " ended: " + incident.reason;
  if (incident.downtime) {
    line += "; resumed";
    if (incident.resumed_epoch) {
      line += " from epoch " + std::to_string(*incident.resumed_epoch);
    }
    line += " as attempt " + std::to_string(number(incident.attempt) + 1) + ", downtime " +
            std::to_string(milliseconds(*incident.downtime)) + " ms";
  }
  return line + "\n";
}

std::string verdict_line(const JobSummary& summary) {
  const std::string attempts =
      std::to_string(summary.attempts) + (summary.attempts == 1 ? " attempt" : " attempts");
  switch (summary.verdict) {
    case Verdict::succeeded:
      return "job succeeded after " + attempts;
    case Verdict::failed:
      return "job failed after " + attempts;
    case Verdict::stopped:
      return "job stopped by " + std::string(signal_name(summary.stop_signal)) + " after " +
             attempts;
    case Verdict::impossible:
      return "job could not run";
  }
  return "?";
}

const FailureRecord* root_cause(const JobSummary& summary) {
  if (summary.incidents.empty() || summary.incidents.back().records.empty()) {
    return nullptr;
  }
  return &summary.incidents.back().records.front();
}

}  // namespace

std::string summary_text(const JobSummary& summary, const std::string& title) {
  if (summary.verdict == Verdict::succeeded && summary.incidents.empty()) {
    return {};
  }
  std::string out;
  if (summary.verdict == Verdict::failed && root_cause(summary) != nullptr) {
    out += failure_report(summary.incidents.back(), title);
  }
  out += "ddprun: " + verdict_line(summary);
  if (!summary.reason.empty()) {
    out += ": " + summary.reason;
  }
  out += "\n";
  if (!summary.incidents.empty()) {
    out += "  restarts used: " + std::to_string(summary.restarts_used) + " of " +
           std::to_string(summary.max_restarts) + "\n";
  }
  for (const auto& incident : summary.incidents) {
    out += incident_line(incident);
  }
  if (summary.progress.last_epoch || summary.progress.loss) {
    out += "  training:";
    if (summary.progress.last_epoch) {
      out += " last epoch " + std::to_string(*summary.progress.last_epoch);
    }
    if (summary.progress.loss) {
      char loss[48];
      std::snprintf(loss, sizeof loss, "%s final loss %.6g", summary.progress.last_epoch ? "," : "",
                    *summary.progress.loss);
      out += loss;
    }
    out += "\n";
  }
  return out;
}

std::string agent_error_json(const JobSummary& summary) {
  if (summary.verdict == Verdict::succeeded) {
    return {};
  }
  ErrorRecord record;
  if (const FailureRecord* cause = root_cause(summary)) {
    if (!cause->error_file_json.empty()) {
      if (auto json = with_error_code(cause->error_file_json, cause->exit.torchrun_code())) {
        return *json;
      }
    }
    record.message = cause->message;
    record.callstack = cause->stderr_tail;
    record.time = cause->time;
    record.error_code = cause->exit.torchrun_code();
  } else {
    record.message = verdict_line(summary) + (summary.reason.empty() ? "" : ": " + summary.reason);
  }
  return to_json(record);
}

std::string agent_error_json(const Error& error,
                             std::chrono::sys_time<std::chrono::microseconds> now) {
  ErrorRecord record;
  record.message = error.sentence();
  record.time = now;
  return to_json(record);
}

Result<void> write_agent_error_file(const std::string& path, const std::string& json) {
  const std::string aside = path + ".tmp" + std::to_string(::getpid());
  const auto fail = [&](const char* what) -> Result<void> {
    const int why = errno;
    ::unlink(aside.c_str());
    return errno_error(why, what, "error file '" + path + "'",
                       "set TORCHELASTIC_ERROR_FILE to a path that can be written");
  };
  Fd file(::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) {
    return fail("cannot write it");
  }
  for (std::size_t at = 0; at < json.size();) {
    const ssize_t written = ::write(file.get(), json.data() + at, json.size() - at);
    if (written < 0) {
      return fail("cannot write it");
    }
    at += static_cast<std::size_t>(written);
  }
  if (::rename(aside.c_str(), path.c_str()) != 0) {
    return fail("cannot put it in place");
  }
  return {};
}

}  // namespace ddprun
