// explore: all orders of events in a cluster of two or three nodes, with a few faults.
// docs/simulation.md describes it.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/exploration.h"

namespace {

using namespace ddprun::sim;

constexpr const char* kUsage =
    "usage: explore --nodes N [--must-fail]   all that a test explores; with --must-fail it ends\n"
    "                                         well if something goes wrong\n"
    "       explore --nodes N --faults F [--reorderings R] [--from-ms MS] [--until-ms MS]\n"
    "                                         paths with so many faults by then, and so many\n"
    "                                         changes to the order of sending from then on\n";

/// What takes half a minute each. More faults leave less room for orders, and come sooner.
std::vector<ExploreOptions> bounds_of(int nodes) {
  ExploreOptions one{nodes, 1};
  one.reorderings = nodes == 2 ? 3 : 1;
  ExploreOptions two{nodes, 2};
  two.reorderings = nodes == 2 ? 1 : 0;
  two.from = nodes == 2 ? Duration(0) : Duration(milliseconds(1));
  two.faults_until = milliseconds(500);
  return {{nodes, 0}, one, two};
}

std::string to_text(const ExploreOptions& options) {
  return std::to_string(options.nodes) + " nodes, " + std::to_string(options.faults) + " faults, " +
         (options.reorderings ? std::to_string(*options.reorderings) : "any") + " changes of order";
}

/// True: nothing went wrong.
bool holds(const ExploreOptions& options) {
  const Explored found = explore(options);
  std::cout << to_text(options) << ": " << found.states << " states, " << found.paths
            << " paths, depth " << found.depth << "; " << found.begun_twice
            << " paths begin a job twice" << std::endl;
  return !found.is_wrong;
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, int> given;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    given[name] = name != "--must-fail" && i + 1 < argc ? std::atoi(argv[++i]) : 0;
  }
  if (!given.contains("--nodes") || given["--nodes"] < 2 || given["--nodes"] > 4) {
    std::cerr << kUsage;
    return 2;
  }
  std::vector<ExploreOptions> all = bounds_of(given["--nodes"]);
  if (given.contains("--faults")) {
    ExploreOptions one{given["--nodes"], given["--faults"]};
    if (given.contains("--reorderings")) {
      one.reorderings = given["--reorderings"];
    }
    one.from = milliseconds(given["--from-ms"]);
    if (given.contains("--until-ms")) {
      one.faults_until = milliseconds(given["--until-ms"]);
    }
    all = {one};
  }
  for (const ExploreOptions& options : all) {
    if (!holds(options)) {
      return given.contains("--must-fail") ? 0 : 1;
    }
  }
  return given.contains("--must-fail") ? 1 : 0;
}
