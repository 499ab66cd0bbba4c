// Where the built programs are, seen from a test program: build/tests/unit_x -> build/bin.
// Found at run time, so that no compile command names a build folder and ccache serves every clone.
#pragma once

#include <filesystem>
#include <string>

namespace ddprun::test {

inline std::string bin_dir() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin")
      .string();
}

}  // namespace ddprun::test
