#include "launcher/hosts/remote_failure.h"

#include <string_view>

#include "rendezvous/base/check.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

// As ssh(1) and POSIX shells (2.8.2) have them.
constexpr int kSshFailed = 255;
constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;
constexpr std::size_t kWordsBytesMax = 500;

/// The last line that says something: before it stand banners and warnings.
std::string last_line(std::string_view text) {
  text = trimmed(text);
  const auto newline = text.rfind('\n');
  std::string_view line =
      trimmed(newline == std::string_view::npos ? text : text.substr(newline + 1));
  while (line.ends_with('.')) {
    line.remove_suffix(1);
  }
  return printable(std::string(line.substr(0, kWordsBytesMax)));
}

bool exited_with(const ExitStatus& status, int code) {
  return status.kind == ExitStatus::Kind::exited && status.value == code;
}

std::string how_it_ended(const ExitStatus& status) {
  return status.kind == ExitStatus::Kind::exited ? "ended with " + std::to_string(status.value)
                                                 : "was killed by " + signal_name(status.value);
}

}  // namespace

Error remote_failure(const RemoteEnd& end) {
  DDP_CHECK(!end.executable.empty(), "ddprun has a path");
  const bool by_ssh = !end.target.empty();
  const std::string command = by_ssh ? "ssh" : "the relay";
  if (end.is_late) {
    return {"its ddprun did not begin within a minute", "",
            by_ssh ? "try `ssh " + end.target + " true`" : ""};
  }
  // A shell that refuses the login may say so on stdout, where the relay's words were to come.
  std::string words = last_line(end.said);
  if (words.empty() && end.state != RelayReader::State::good) {
    words = last_line(end.noise);
  }
  if (end.state == RelayReader::State::other_version) {
    return {"ddprun there speaks version " + std::to_string(end.version) +
                " of the control protocol, and this one version " +
                std::to_string(kProtocolVersion),
            "", "install the same ddprun on every host"};
  }
  // It had begun: whatever ended it since, ssh's own words or its end say it best.
  if (end.state == RelayReader::State::good) {
    return {"the connection to its ddprun is lost: " +
                (words.empty() ? command + " " + how_it_ended(end.status) : words),
            "", ""};
  }
  // The far shell's codes, which ssh passes on. Its words differ from shell to shell.
  if (exited_with(end.status, kNotFound) || exited_with(end.status, kNotExecutable)) {
    const bool missing = exited_with(end.status, kNotFound);
    return {(missing ? "there is no program " : "permission to execute is denied there for ") +
                end.executable + (missing ? " there" : "") +
                (words.empty() ? "" : " (" + words + ")"),
            "", "install ddprun at the same path on every host"};
  }
  const std::string said = words.empty() ? how_it_ended(end.status) + " and said nothing" : words;
  // ssh puts its name before some of its sentences.
  const std::string what =
      words.starts_with("ssh: ") ? words : command + (words.empty() ? " " : ": ") + said;
  if (by_ssh && exited_with(end.status, kSshFailed)) {
    return {what, "", "try `ssh " + end.target + " true`"};
  }
  return {"its ddprun did not begin: " + what, "", ""};
}

}  // namespace ddprun
