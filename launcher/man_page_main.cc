// A program of the build: writes ddprun(1) to stdout. usage: ddprun_man_page VERSION DATE
#include <cstdio>
#include <string>

#include "launcher/man_page.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: ddprun_man_page VERSION DATE\n", stderr);
    return 2;
  }
  const std::string page = ddprun::man_page(argv[1], argv[2]);
  return std::fwrite(page.data(), 1, page.size(), stdout) == page.size() && std::fflush(stdout) == 0
             ? 0
             : 1;
}
