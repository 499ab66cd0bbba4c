#include "tests/sim/exploration.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "rendezvous/base/check.h"
#include "tests/sim/child.h"

namespace ddprun::sim {
namespace {

/// Of a path. The longest has a tenth of that.
constexpr std::size_t kBranchesMax = 4096;

/// A state with several choices.
struct Branch {
  std::uint16_t taken;
  std::uint16_t count;
};

/// What the child leaves, also when it aborts.
struct Trail {
  Explored found;
  std::size_t branches;  ///< of the newest path
  std::array<Branch, kBranchesMax> path;
};

class Search {
 public:
  Search(const ExploreOptions& options, Trail& trail) : options_(options), trail_(trail) {}

  void run() {
    do {
      ++trail_.found.paths;
      walk();
    } while (!trail_.found.is_wrong && next_path());
  }

 private:
  /// Where a branch of the trail is, so that its other choices are taken without looking at all
  /// that led to it again.
  struct Crossing {
    std::size_t steps;  ///< of the path
    std::vector<Choice> choices;
    ExploredWorld::Progress progress;
  };

  void walk();
  bool step(ExploredWorld& world, std::vector<Choice> choices);
  void take(ExploredWorld& world, const Choice& choice);
  void take_branch(ExploredWorld& world);
  bool next_path();

  const ExploreOptions& options_;
  Trail& trail_;
  std::vector<Choice> path_;         ///< the newest
  std::vector<Crossing> crossings_;  ///< one for each branch of the trail
  std::unordered_set<std::uint64_t> seen_;
};

/// Along the trail, then on until the end or a state that was seen before.
void Search::walk() {
  ExploredWorld world(options_, false);
  const Cluster& cluster = world.cluster();
  Explored& found = trail_.found;
  if (trail_.branches > 0) {
    crossings_.resize(trail_.branches);
    path_.resize(crossings_.back().steps);
    world.repeat(path_, crossings_.back().progress);
    take_branch(world);
  }
  while (cluster.violation().empty()) {
    auto choices = world.choices();
    if (choices.empty() || !step(world, std::move(choices))) {
      break;
    }
  }
  if (!cluster.violation().empty()) {
    found.is_wrong = true;
    return;
  }
  found.states = seen_.size();
  found.begun_twice += cluster.observer().begun_twice() ? 1 : 0;
}

/// False: this state was seen before.
bool Search::step(ExploredWorld& world, std::vector<Choice> choices) {
  if (choices.size() == 1) {
    take(world, choices.front());
    return true;
  }
  if (!seen_.insert(world.digest()).second) {
    return false;
  }
  DDP_CHECK(trail_.branches < kBranchesMax, "a path ends");
  trail_.path[trail_.branches++] = {0, static_cast<std::uint16_t>(choices.size())};
  crossings_.push_back({path_.size(), std::move(choices), world.progress()});
  take_branch(world);
  return true;
}

void Search::take(ExploredWorld& world, const Choice& choice) {
  path_.push_back(choice);
  world.take(choice);
  trail_.found.depth = std::max<std::uint64_t>(trail_.found.depth, path_.size());
}

/// The choice whose turn it is at the newest branch.
void Search::take_branch(ExploredWorld& world) {
  Branch& here = trail_.path[trail_.branches - 1];
  take(world, Choice(crossings_.back().choices[here.taken]));
  if (world.was_idle()) {
    here.count = static_cast<std::uint16_t>(here.taken + 1);
  }
}

bool Search::next_path() {
  std::size_t& last = trail_.branches;
  while (last > 0 && ++trail_.path[last - 1].taken == trail_.path[last - 1].count) {
    --last;
  }
  return last > 0;
}

/// The newest path, with all that was decided on it.
void retell(const ExploreOptions& options, const Trail& trail) {
  ExploredWorld world(options, true);
  Cluster& cluster = world.cluster();
  std::size_t branch = 0;
  std::size_t told = 0;
  for (auto choices = world.choices(); !choices.empty() && cluster.violation().empty();
       choices = world.choices()) {
    const bool is_branch = choices.size() > 1;
    if (is_branch && branch == trail.branches) {
      return;
    }
    const Choice& choice = choices[is_branch ? trail.path[branch++].taken : 0];
    if (const std::string text = world.text(choice); !text.empty()) {
      cluster.log_step(text);
    }
    std::cout << cluster.trace().substr(told) << std::flush;
    told = cluster.trace().size();
    world.take(choice);
  }
  std::cout << cluster.trace().substr(told) << "wrong: " << cluster.violation() << std::endl;
}

}  // namespace

Explored explore(const ExploreOptions& options) {
  void* memory =
      ::mmap(nullptr, sizeof(Trail), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  DDP_CHECK(memory != MAP_FAILED, "there is memory to share");
  Trail& trail = *std::construct_at(static_cast<Trail*>(memory));
  if (!ended_well(run_in_child([&] { Search(options, trail).run(); }))) {
    trail.found.is_wrong = true;
  }
  if (trail.found.is_wrong && !ended_well(run_in_child([&] { retell(options, trail); }))) {
    std::cout << "wrong: a check fails" << std::endl;
  }
  const Explored found = trail.found;
  ::munmap(memory, sizeof(Trail));
  return found;
}

}  // namespace ddprun::sim
