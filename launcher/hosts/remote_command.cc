#include "launcher/hosts/remote_command.h"

#include <array>

#include "launcher/hosts/shell_words.h"
#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// No terminal and no question, for nobody could answer on 64 hosts; a host that does not answer is
/// given up within ten seconds, and one that falls silent within thirty; no connection is left
/// behind for others to share, since all that was started ends with the job.
constexpr std::array kSshOptions = {"-T",
                                    "-x",
                                    "-oBatchMode=yes",
                                    "-oConnectTimeout=10",
                                    "-oServerAliveInterval=10",
                                    "-oServerAliveCountMax=3",
                                    "-oControlMaster=no"};

}  // namespace

std::vector<std::string> ssh_words(const RelayStart& start, const std::string& target) {
  DDP_CHECK(!start.ssh.empty() && !target.empty(), "there is a command, and a host to reach");
  DDP_CHECK(!target.starts_with('-'), "a host is no option of ssh");
  std::vector<std::string> words = start.ssh;
  const std::string& program = words.front();
  if (program.substr(program.rfind('/') + 1) == "ssh") {
    words.insert(words.end(), kSshOptions.begin(), kSshOptions.end());
  }
  words.push_back(target);
  // exec: no shell stays between ssh and the relay. Most shells read these words alike.
  words.push_back("exec " + shell_quoted(start.executable) + " " + std::string(kRelayWord));
  return words;
}

}  // namespace ddprun
