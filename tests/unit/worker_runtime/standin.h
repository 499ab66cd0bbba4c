// For tests of what speaks with NCCL: ranks whose GPU and whose NCCL are the stand-ins of
// tests/standin, with faults.
#pragma once

#include <string>
#include <vector>

#include "ranks.h"
#include "tests/support/temp_dir.h"

namespace ddp_test {

/// Sets the variables that the ranks of this scope inherit; unsets them at its end.
class Standin {
 public:
  explicit Standin(const std::string& faults = "");
  ~Standin();
  Standin(const Standin&) = delete;
  Standin& operator=(const Standin&) = delete;

  /// The calls of NCCL's functions that one rank made, in order; without polls.
  [[nodiscard]] std::vector<std::string> calls(int rank) const;
  /// Fails the test when the runtime broke a rule of NCCL's (one thread at a time, no use after the
  /// end, groups that end).
  void check_rules() const;

 private:
  ddprun::test::TempDir folder_;
};

}  // namespace ddp_test
