// acting_worker ACTS...: does what it is told to, and tells the agent as a trainer does. One word
// of acts for each attempt, the last one for all that follow; acts are parted by commas:
//   step:N    makes N optimizer steps       save:E    saves a snapshot of epoch E
//   exit:C    exits with C                  kill:S    ends by signal S
//   no-retry  throws ddp::DoNotRetry        wait      runs until it is ended
#include <ddp/ddp.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>

#include "ddp/error.h"

namespace {

int act(const std::string& acts, ddp::Progress& progress) {
  std::istringstream words(acts);
  for (std::string word; std::getline(words, word, ',');) {
    const auto colon = word.find(':');
    const std::string what = word.substr(0, colon);
    const int number = colon == std::string::npos ? 0 : std::atoi(word.c_str() + colon + 1);
    if (what == "step") {
      for (int i = 0; i < number; ++i) {
        progress.step();
      }
    } else if (what == "save") {
      progress.saved(static_cast<std::uint64_t>(number));
    } else if (what == "exit") {
      return number;
    } else if (what == "kill") {
      ::raise(number);
    } else if (what == "no-retry") {
      throw ddp::DoNotRetry("there is no such data set");
    } else if (what == "wait") {
      ::pause();
    } else {
      return 2;
    }
  }
  return 0;
}

int run(int argc, char** argv) {
  const char* restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  const int attempt = restarts == nullptr ? 0 : std::atoi(restarts);
  auto progress = ddp::Progress::attach(std::getenv("DDPRUN_PROGRESS_CHANNEL"));
  return argc < 2 ? 2 : act(argv[attempt + 1 < argc ? attempt + 1 : argc - 1], progress);
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::record(argc, argv, run);
}
