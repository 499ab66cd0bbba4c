// Program: finds the file to execute for a worker. Looks at the file system, executes nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/job_spec.h"
#include "rendezvous/base/result.h"

namespace ddprun {

enum class ProgramKind : unsigned char {
  executable,     ///< the program itself
  python_script,  ///< python -u PROGRAM
  python_module,  ///< python -u -m PROGRAM
};

struct ProgramRequest {
  ProgramKind kind = ProgramKind::executable;
  std::string name;  ///< as the user wrote it
  std::vector<std::string> arguments;
  bool local_rank_argument = false;  ///< --local-rank=N comes first of the arguments
  std::string python;                ///< PYTHON_EXEC; empty: see find_program
  std::string search_path;  ///< PATH: directories between colons, an empty one is the current
  std::string beside_dir;   ///< the directory of ddprun; asked after the search path
  std::string current_dir;  ///< what relative paths are relative to
};

/// How a script of before LOCAL_RANK wants its rank: "--local_rank" when its source names that and
/// not "--local-rank", which is what launchers have said since PyTorch 2.0. Pure.
std::string local_rank_option(std::string_view source);

/// A name with a slash is a path and nothing is searched. The Error names what was looked for and
/// where. A script must exist; whether a module does, only Python knows. Python is `python`, else
/// that of the virtual environment that `beside_dir` is the bin of, else python3, then python, on
/// the search path.
Result<Program> find_program(const ProgramRequest& request);

}  // namespace ddprun
