#include "agent/output/summary.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/base/text.h"
#include "rendezvous/contract/error_file.h"
#include "rendezvous/membership/hang_diagnosis.h"
#include "rendezvous/membership/ledger_text.h"

namespace ddprun {
namespace {

using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

constexpr std::size_t kLabelWidth = 10;    // torchrun pads its labels to this
constexpr std::size_t kRuleWidthMax = 60;  // and draws no longer line than this

/// The format of torchrun's report, in local time.
std::string local_time(WallTime time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(time));
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d_%H:%M:%S", &parts);
  return text;
}

/// Newlines and tabs stay.
std::string printable_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\t"), text.size());
    out += printable(std::string(text.substr(0, end)));
    out += text.substr(end, 1);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

/// What a terminal may be shown of a worker's text: progress bars as they last looked, no escape
/// sequences, nothing that moves the cursor out of its line.
std::string readable(std::string_view text) {
  std::string out;
  std::size_t line_begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool last = i + 1 == text.size();
    if (c == '\x1b' && !last && text[i + 1] == '[') {
      i += 2;  // a control sequence ends with a byte from '@' to '~'
      while (i < text.size() && (text[i] < '@' || text[i] > '~')) {
        ++i;
      }
    } else if (c == '\r') {
      // What follows overwrites the line, as on a terminal; "\r\n" is a line end.
      if (!last && text[i + 1] != '\n') {
        out.resize(line_begin);
      }
    } else {
      out.push_back(c);
      line_begin = c == '\n' ? out.size() : line_begin;
    }
  }
  DDP_CHECK(line_begin <= out.size(), "a line begins inside the text");
  while (!out.empty() && (out.back() == '\n' || out.back() == ' ')) {
    out.pop_back();
  }
  return printable_lines(out);
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

std::string_view blame_text(const FailureRecord& record) {
  switch (record.blame) {
    case Blame::cause:
      return record.peer_lost ? "first of the victims (whom they lost is not known)" : "cause";
    case Blame::victim:
      return "victim (failed after the cause, or for the loss of a peer)";
    case Blame::stopped_by_us:
      return "stopped by ddprun";
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
  // Python's call stack ends in the message; a C++ one has only frames, so the message is put
  // before it.
  if (const auto parsed = parse_error_record(record.error_file_json);
      parsed && !parsed->callstack.empty()) {
    traceback = parsed->callstack;
    if (traceback.find(parsed->message) == std::string::npos) {
      traceback = parsed->message + "\n" + traceback;
    }
  }
  traceback = readable(traceback);
  out << "[" << index << "]:\n";
  line("time", local_time(record.time));
  line("host", record.node);
  line("rank", fmt::format("{} (local_rank: {})", record.rank, record.local_rank));
  // Python's form, as torchrun has it: SIGKILL is -9.
  const bool by_signal = record.exit.kind == ExitStatus::Kind::signalled;
  line("exitcode", fmt::format("{} (pid: {}){}", record.exit.torchrun_code(), record.pid,
                               by_signal ? "  (" + signal_name(record.exit.value) + ")" : ""));
  line("blame", std::string(blame_text(record)));
  line("error_file", record.error_file_path.empty() ? "<N/A>" : record.error_file_path);
  line("traceback", indented(traceback, "  "));
  if (const std::string tail = readable(record.stderr_tail); with_stderr && !tail.empty()) {
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

/// Those that we stopped explain nothing: one line for all, however many they are.
std::string stopped_line(const Incident& incident) {
  std::map<int, std::pair<std::string, std::vector<int>>> nodes;  // by group rank
  for (const auto& record : incident.records) {
    if (record.blame == Blame::stopped_by_us) {
      auto& [node, ranks] = nodes[record.group_rank];
      node = record.node;
      ranks.push_back(record.rank);
    }
  }
  std::string out;
  for (auto& [group_rank, node_and_ranks] : nodes) {
    auto& [node, ranks] = node_and_ranks;
    // Records come in the order of failures; a list of ranks needs them ascending.
    std::sort(ranks.begin(), ranks.end());
    out += (out.empty() ? "" : "; ") + ranks_text(ranks) + " on " + node;
  }
  std::string notes;
  for (const FailureRecord& record : incident.records) {
    if (record.blame == Blame::stopped_by_us && !record.note.empty()) {
      notes += fmt::format("    rank {} on {}: {}\n", record.rank, record.node, record.note);
    }
  }
  DDP_CHECK(notes.empty() || !out.empty(), "a rank with a note is among the ranks");
  return out.empty() ? out : "  Stopped by ddprun after that: " + out + "\n" + notes;
}

/// The report of the incident that ended the job, as wide as its blocks.
std::string failure_report(const Incident& incident, const std::string& title) {
  DDP_CHECK(!incident.records.empty(), "a failure that is reported has a cause");
  const std::string name = title + " FAILED";
  std::string victims;
  // The cause is the first record. torchrun shows the other failures first, and the cause last.
  for (std::size_t i = 1; i < incident.records.size(); ++i) {
    if (incident.records[i].blame != Blame::stopped_by_us) {
      victims += block(incident.records[i], i, false);
    }
  }
  const std::string root = block(incident.records.front(), 0, true);
  // As wide as the widest block, up to torchrun's bound.
  const std::size_t width =
      std::min(kRuleWidthMax, std::max({name.size(), longest_line(victims), longest_line(root)}));
  std::string others = victims.empty() ? "  <NO_OTHER_FAILURES>\n" : victims;
  others += stopped_line(incident);
  // The coordinator keeps a bounded number of records of each incident.
  if (incident.records_dropped > 0) {
    others += fmt::format("  (and {} more)\n", incident.records_dropped);
  }
  const std::string heavy(width, '=');
  const std::string light(width, '-');
  std::string out = "\n" + heavy + "\n" + name + "\n" + light + "\nFailures:\n" + others + light;
  out += "\nRoot Cause (first observed failure):\n" + root + heavy + "\n";
  return out;
}

long long milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

/// Where a worker that hung stood, and where more is to be read.
std::string stack_lines(const Incident& incident) {
  if (incident.records.empty() || !incident.records.front().hung) {
    return {};
  }
  const FailureRecord& cause = incident.records.front();
  std::string out = fmt::format("    rank {} on {}", cause.rank, cause.node);
  const std::string stack = readable(cause.stack);
  if (!stack.empty()) {
    out += " stood in (newest frame first):\n      " + indented(stack, "      ");
  }
  if (!cause.stacks_path.empty()) {
    out += (stack.empty() ? ": " : "\n    ") + std::string("stacks of its threads: ") +
           cause.stacks_path + " (each node has such files of its own workers)";
  }
  return stack.empty() && cause.stacks_path.empty() ? "" : out + "\n";
}

/// One line for each incident; what was not reported is left out.
std::string incident_line(const Incident& incident) {
  std::string line =
      fmt::format("  attempt {} ended: {}", number(incident.attempt), incident.reason);
  if (incident.next_attempt && (incident.downtime || incident.resumed_from)) {
    line += "; resumed";
    if (incident.resumed_from) {
      line += " from " + to_text(*incident.resumed_from);
    }
    line += " as attempt " + std::to_string(number(*incident.next_attempt));
  }
  if (incident.downtime) {
    line += fmt::format(", downtime {} ms", milliseconds(*incident.downtime));
  }
  line += " (" + break_down_text(incident.parts) + ")";
  const std::string lost = lost_work_text(incident.lost, incident.next_attempt.has_value());
  line += lost.empty() ? "" : ", " + lost;
  return line + "\n" + stack_lines(incident);
}

/// " after 2 attempts". A node that is asked to end while it searches for its coordinator knows of
/// none: nothing then.
std::string after_attempts(int attempts) {
  return attempts == 0
             ? ""
             : fmt::format(" after {}{}", attempts, attempts == 1 ? " attempt" : " attempts");
}

std::string verdict_line(const JobSummary& summary) {
  const std::string after = after_attempts(summary.attempts);
  switch (summary.verdict) {
    case Verdict::succeeded:
      return "job succeeded" + after;
    case Verdict::failed:
      return "job failed" + after;
    case Verdict::stopped:
      return "job stopped by " + signal_name(summary.stop_signal) + after;
    case Verdict::impossible:
    case Verdict::disagreed:
      return summary.attempts == 0 ? "job could not run" : "job could not go on" + after;
    case Verdict::preempted:
      return "job preempted" + after;
    case Verdict::left:
      return "this node has left the job, which goes on";
  }
  return "?";
}

/// Incidents are in the order of attempts: the last one ended the job.
const FailureRecord* root_cause(const JobSummary& summary) {
  if (summary.incidents.empty() || summary.incidents.back().records.empty()) {
    return nullptr;
  }
  return &summary.incidents.back().records.front();
}

}  // namespace

/// As torchrun, which prints nothing after a success.
bool has_summary_text(const JobSummary& summary) {
  return summary.verdict != Verdict::succeeded || !summary.incidents.empty();
}

std::string summary_text(const JobSummary& summary, const std::string& title) {
  if (!has_summary_text(summary)) {
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
  if (summary.verdict == Verdict::preempted) {
    out += "; the same command goes on, from the newest snapshot if one was saved";
  }
  out += "\n";
  if (!summary.incidents.empty()) {
    out += fmt::format("  restarts used: {} of {}\n", summary.restarts_used, summary.max_restarts);
  }
  for (const auto& incident : summary.incidents) {
    out += incident_line(incident);
  }
  // Without an incident all the time was training, and a share of 100 % says nothing.
  if (!summary.incidents.empty() && summary.accounts.ratio()) {
    const int all = summary.incidents_dropped + static_cast<int>(summary.incidents.size());
    out += "  " + accounts_text(summary.accounts, all) + "\n";
  }
  if (summary.progress.last_epoch || summary.progress.loss) {
    out += "  training:";
    if (summary.progress.last_epoch) {
      out += " last epoch " + std::to_string(*summary.progress.last_epoch);
    }
    if (summary.progress.loss) {
      char loss[48];
      std::snprintf(loss, sizeof loss, "%s final loss %.6g", summary.progress.last_epoch ? "," : "",
                    // A NaN has a sign, which means nothing.
                    std::isnan(*summary.progress.loss) ? NAN : *summary.progress.loss);
      out += loss;
    }
    out += "\n";
  }
  DDP_CHECK(out.ends_with('\n'), "a summary ends its last line");
  return out;
}

std::string agent_error_json(const JobSummary& summary, WallTime now) {
  if (summary.verdict == Verdict::succeeded || summary.verdict == Verdict::left) {
    return {};
  }
  ErrorRecord record;
  record.time = now;
  const FailureRecord* cause = summary.verdict == Verdict::failed ? root_cause(summary) : nullptr;
  if (cause == nullptr) {
    record.message = verdict_line(summary) + (summary.reason.empty() ? "" : ": " + summary.reason);
    DDP_CHECK(!record.message.empty(), "every verdict has a sentence");
    return to_json(record);
  }
  // As torchrun does: the file names the cause's exit code, not the agent's.
  const int code = cause->exit.torchrun_code();
  // An outer launcher reads this file as torchrun's: the worker's own text with errorCode added.
  if (!cause->error_file_json.empty()) {
    if (auto json = with_error_code(cause->error_file_json, code)) {
      return *json;
    }
  }
  record.message = cause->message;
  record.callstack = cause->stderr_tail;
  record.time = cause->time;
  record.error_code = code;
  return to_json(record);
}

std::string agent_error_json(const Error& error, WallTime now) {
  ErrorRecord record;
  record.message = error.sentence();
  record.time = now;
  return to_json(record);
}

namespace {

Error cannot_write(const std::string& path, int why) {
  return errno_error(why, "cannot write it", "error file '" + path + "'",
                     "set TORCHELASTIC_ERROR_FILE to a path that can be written");
}

/// 0, or errno.
int write_all(const std::string& path, int flags, std::string_view text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | flags, 0644));
  if (!file) {
    return errno;
  }
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return errno;
    }
    text.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

Result<void> write_agent_error_file(const std::string& path, const std::string& json) {
  std::string target = path;
  int why = 0;
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    const bool leads_nowhere = S_ISLNK(status.st_mode) && ::stat(path.c_str(), &status) != 0;
    if (leads_nowhere || !S_ISREG(status.st_mode)) {
      // /dev/null, a FIFO: a rename would put a file in its place. Without a reader: no waiting. A
      // link whose file is not there yet has nothing that a full disk could spoil.
      why = write_all(path, leads_nowhere ? O_CREAT | O_TRUNC : O_NONBLOCK, json);
      return why == 0 ? Result<void>() : cannot_write(path, why);
    }
    // A link stays a link.
    std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
    target = real ? real.get() : path;
  }
  // In the same directory, since rename(2) does not leave a file system; the pid keeps two agents
  // apart.
  const std::string aside = fmt::format("{}.tmp{}", target, ::getpid());
  // Complete before the rename: a full disk leaves the file of an earlier run as it was.
  why = write_all(aside, O_CREAT | O_TRUNC, json);
  if (why == 0 && ::rename(aside.c_str(), target.c_str()) != 0) {
    why = errno;
  }
  if (why != 0) {
    ::unlink(aside.c_str());
    return cannot_write(path, why);
  }
  return {};
}

}  // namespace ddprun
