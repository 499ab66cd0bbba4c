// train as a user runs it, by a shell.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>

#include "tests/support/child_process.h"
#include "tests/support/free_port.h"

namespace ddp {

inline const std::string kTrain = ddprun::test::find_program("train");

struct Outcome {
  int status = -1;
  std::string output;
};

/// A shell command in `directory`, stdout and stderr together.
inline Outcome shell(const std::filesystem::path& directory, const std::string& command) {
  const auto finished = ddprun::test::run(
      {.argv = {"bash", "-c", "exec 2>&1; " + command},
       // A launcher round this test must not be taken for the program's own.
       .environment = {{"RANK", ""}, {"WORLD_SIZE", ""}, {"TORCHELASTIC_ERROR_FILE", ""}},
       .directory = directory.string()});
  return {finished.exit_code, finished.out};
}

inline Outcome train(const std::filesystem::path& directory, const std::string& arguments) {
  return shell(directory, kTrain + " " + arguments);
}

/// The line that begins so, without that beginning; empty when there is none.
inline std::string line_after(const std::string& output, const std::string& beginning) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(beginning)) {
      return line.substr(beginning.size());
    }
  }
  return "";
}

/// Two nodes of one rank each; node n works in the sub-folder n, so its snapshots are its own.
/// `only_1` is given to rank 1 behind the arguments of both; `before_1` is what its shell does
/// first.
inline Outcome two_nodes(const std::filesystem::path& directory, const std::string& arguments,
                         const std::string& only_1 = "", const std::string& before_1 = "") {
  const auto node = [&, port = ddprun::test::free_port()](const std::string& rank) {
    return "(cd " + rank + "; " + (rank == "1" ? before_1 : "") + " RANK=" + rank +
           " GROUP_RANK=" + rank +
           " WORLD_SIZE=2 OMP_NUM_THREADS=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 "
           "MASTER_PORT=" +
           std::to_string(port) + " " + kTrain + " " + arguments + " " +
           (rank == "1" ? only_1 : "") + ")";
  };
  return shell(directory, "mkdir -p 0 1 && { " + node("1") + " & " + node("0") +
                              "; s=$?; wait $!; exit $((s | $?)); }");
}

}  // namespace ddp
