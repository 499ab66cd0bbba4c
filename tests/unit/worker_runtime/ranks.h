// Ranks: a world of real processes on this machine, for tests. Each is forked, finds the others by
// ddp::init() (as under mpirun, by a file in a folder of its own) and hands back a text.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ddp_test {

struct Outcome {
  int exit_code = -1;  ///< -1 when a signal ended it
  int signal = 0;
  /// What the body returned, or "Type: what" of the exception that left it (exit code 1).
  std::string text;
  /// When the text came, on the steady clock, which all processes share.
  std::chrono::steady_clock::time_point time;
};

class Ranks {
 public:
  /// Runs in the forked process; what it returns is the outcome's text.
  using Body = std::function<std::string(int rank)>;

  Ranks(int world_size, const Body& body);
  /// Kills and reaps what is left.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// In a body: tells the test that it has come so far.
  static void event();
  /// Waits until that rank has called event() once more. False after a minute.
  bool await_event(int rank);
  void signal(int rank, int signal);
  /// What has come from that rank, without its end. For ranks that never end by themselves.
  Outcome outcome_so_far(int rank) const;
  /// Reads more of what comes, for up to a tenth of a second.
  void read_more();
  /// Waits for all to end; kills those that have not after `limit`.
  std::vector<Outcome> finish(std::chrono::seconds limit = std::chrono::seconds(50));

 private:
  struct Process {
    pid_t pid = -1;
    int pipe = -1;
    int events = 0;  ///< read and not yet awaited
    bool ended = false;
    Outcome outcome;
  };
  /// Reads what has come from any of them. False when the deadline passed.
  bool read_some(std::chrono::steady_clock::time_point deadline);

  ddprun::test::TempDir folder_;
  std::vector<Process> processes_;
};

/// Runs a body on every rank and checks (Catch) that all returned `expected`.
void require_on_all_ranks(int world_size, const std::string& expected, const Ranks::Body& body);

/// Throws when the condition does not hold: for checks inside a body.
void expect(bool condition, const std::string& what);

}  // namespace ddp_test
