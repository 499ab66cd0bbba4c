#include "standin.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

namespace ddp_test {

Standin::Standin(const std::string& faults) {
  ::setenv("DDPRUN_GPU_LIBRARY", STANDIN_GPU, 1);
  ::setenv("DDPRUN_NCCL_LIBRARY", STANDIN_NCCL, 1);
  ::setenv("DDPRUN_STANDIN_NCCL_FAULT", faults.c_str(), 1);
  ::setenv("DDPRUN_STANDIN_NCCL_TRACE", folder_.file("trace").c_str(), 1);
}

Standin::~Standin() {
  for (const char* name : {"DDPRUN_GPU_LIBRARY", "DDPRUN_NCCL_LIBRARY", "DDPRUN_STANDIN_NCCL_FAULT",
                           "DDPRUN_STANDIN_NCCL_TRACE"}) {
    ::unsetenv(name);
  }
}

std::vector<std::string> Standin::calls(int rank) const {
  std::vector<std::string> calls;
  std::ifstream trace(folder_.file("trace"));
  for (std::string line; std::getline(trace, line);) {
    const std::string prefix = std::to_string(rank) + " ";
    if (line.rfind(prefix, 0) == 0) {
      calls.push_back(line.substr(prefix.size()));
    }
  }
  return calls;
}

void Standin::check_rules() const {
  std::ifstream trace(folder_.file("trace"));
  for (std::string line; std::getline(trace, line);) {
    INFO(line);
    CHECK(line.find("WRONG") == std::string::npos);
  }
}

}  // namespace ddp_test
