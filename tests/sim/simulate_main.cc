// simulate: stories of clusters under faults. docs/simulation.md describes it.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "tests/sim/campaign.h"
#include "tests/sim/cluster.h"

namespace {

using namespace ddprun::sim;

constexpr const char* kUsage =
    "usage: simulate [--seeds COUNT] [--first SEED] [--processes N]   many stories\n"
    "                [--must-fail FAULTS]     ends well if one goes wrong, by so few faults\n"
    "                [--must-be-varied]       fails if the stories are all alike\n"
    "       simulate --seed SEED [--trace]                            one; minimised if it goes "
    "wrong\n"
    "       simulate --replay FILE [--trace]                          a story that was printed\n";

/// Options without a value are "".
std::map<std::string, std::string> parse(int argc, char** argv) {
  std::map<std::string, std::string> given;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const bool alone = name == "--trace" || name == "--must-be-varied";
    given[name] = !alone && i + 1 < argc ? argv[++i] : "";
  }
  return given;
}

std::uint64_t number_of(const std::map<std::string, std::string>& given, const std::string& name,
                        std::uint64_t otherwise) {
  const auto found = given.find(name);
  return found == given.end() ? otherwise : std::strtoull(found->second.c_str(), nullptr, 10);
}

int tell(std::uint64_t seed, const std::vector<Fault>& schedule, bool trace) {
  Cluster story(draw(seed), schedule, trace);
  story.run();
  std::cout << story.trace();
  if (!story.violation().empty()) {
    std::cout << "wrong: " << story.violation() << "\n";
    return 1;
  }
  std::cout << "nothing went wrong\n";
  return 0;
}

int replay(const std::string& file, bool trace) {
  std::ifstream in(file);
  if (!in) {
    std::cerr << "simulate: cannot read " << file << "; give a file that simulate has printed\n";
    return 2;
  }
  std::string bad;
  const auto story = parse_story({std::istreambuf_iterator<char>(in), {}}, bad);
  if (!story) {
    std::cerr << "simulate: " << file << ": this line is no fault: " << bad << "\n";
    return 2;
  }
  return tell(story->seed, story->schedule, trace);
}

/// A simulator that never gets anywhere would hold all invariants.
bool is_varied(const Tally& t) {
  const std::uint64_t few = t.stories / 200;
  return t.succeeded > t.stories / 4 && t.failed > few && t.stopped > few && t.impossible > few &&
         t.takeovers > t.stories / 10 && t.incidents > t.stories / 2 && t.contests > few;
}

int tell_many(const std::map<std::string, std::string>& given) {
  const Campaign campaign =
      run_seeds(number_of(given, "--first", 0), number_of(given, "--seeds", 20'000),
                static_cast<int>(number_of(given, "--processes", 1)));
  std::cout << to_text(campaign.tally) << "\n";
  const bool must_fail = given.contains("--must-fail");
  if (!campaign.failed_seed) {
    if (given.contains("--must-be-varied") && !is_varied(campaign.tally)) {
      std::cout << "wrong: the stories are too much alike\n";
      return 1;
    }
    return must_fail ? 1 : 0;
  }
  const Explanation why = explain(*campaign.failed_seed);
  std::cout << why.text;
  return must_fail && why.faults.size() <= number_of(given, "--must-fail", 0) ? 0 : 1;
}

bool is_known(const std::string& name, const std::string& value) {
  if (name == "--trace" || name == "--must-be-varied") {
    return true;
  }
  const std::set<std::string> valued{"--seeds", "--first",  "--processes",
                                     "--seed",  "--replay", "--must-fail"};
  return valued.contains(name) && !value.empty();
}

}  // namespace

int main(int argc, char** argv) {
  const auto given = parse(argc, argv);
  for (const auto& [name, value] : given) {
    if (!is_known(name, value)) {
      std::cerr << "simulate: '" << name << "' is not understood\n" << kUsage;
      return 2;
    }
  }
  const bool trace = given.contains("--trace");
  if (given.contains("--replay")) {
    return replay(given.at("--replay"), trace);
  }
  if (!given.contains("--seed")) {
    return tell_many(given);
  }
  const std::uint64_t seed = number_of(given, "--seed", 0);
  if (trace) {
    return tell(seed, draw_faults(draw(seed)), true);
  }
  std::cout << explain(seed).text;
  return 0;
}
