#include "tests/sim/campaign.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>

#include "rendezvous/base/check.h"
#include "tests/sim/child.h"
#include "tests/sim/cluster.h"
#include "tests/sim/shrink.h"

namespace ddprun::sim {
namespace {

constexpr int kProcessesMax = 64;
constexpr std::size_t kTextMax = 2000;

/// What a child tells its parent, also when it dies.
struct Slate {
  std::uint64_t seed = 0;  ///< at which it is
  bool wrong = false;
  Tally tally;
  std::array<char, kTextMax> text{};
};

/// Memory that children share with their parent.
class Slates {
 public:
  explicit Slates(int count) : bytes_(static_cast<std::size_t>(count) * sizeof(Slate)) {
    void* memory =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    DDP_CHECK(memory != MAP_FAILED, "there is memory to share");
    slates_ = static_cast<Slate*>(memory);
    for (int i = 0; i < count; ++i) {
      std::construct_at(slates_ + i);
    }
  }
  ~Slates() { ::munmap(slates_, bytes_); }
  Slates(const Slates&) = delete;
  Slates& operator=(const Slates&) = delete;
  Slate& operator[](int index) { return slates_[index]; }

 private:
  std::size_t bytes_;
  Slate* slates_ = nullptr;
};

void add(Tally& tally, const Cluster& story) {
  const Observer& seen = story.observer();
  ++tally.stories;
  tally.events += story.events();
  tally.digest += story.digest();
  tally.attempts += static_cast<std::uint64_t>(seen.attempts());
  tally.incidents += static_cast<std::uint64_t>(seen.incidents());
  tally.contests += static_cast<std::uint64_t>(seen.contests());
  tally.takeovers += static_cast<std::uint64_t>(story.takeovers());
  if (seen.begun_twice()) {
    ++tally.begun_twice;
    return;
  }
  if (!seen.summary()) {
    ++tally.unended;
    return;
  }
  switch (seen.summary()->verdict) {
    case Verdict::succeeded:
      ++tally.succeeded;
      break;
    case Verdict::failed:
      ++tally.failed;
      break;
    case Verdict::stopped:
      ++tally.stopped;
      break;
    case Verdict::impossible:
      ++tally.impossible;
      break;
    case Verdict::preempted:
    case Verdict::left:
    case Verdict::disagreed:
      ++tally.stopped;
      break;
  }
}

constexpr std::uint64_t Tally::*kCounts[] = {
    &Tally::stories,  &Tally::left_out,   &Tally::events,      &Tally::attempts,  &Tally::incidents,
    &Tally::contests, &Tally::takeovers,  &Tally::begun_twice, &Tally::succeeded, &Tally::failed,
    &Tally::stopped,  &Tally::impossible, &Tally::unended,     &Tally::digest};

void silence_stderr() {
  const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing >= 0) {
    ::dup2(nothing, STDERR_FILENO);
    ::close(nothing);
  }
}

}  // namespace

std::string to_text(const Tally& t) {
  std::ostringstream text;
  text << t.stories << " stories, " << t.events << " events, " << t.attempts << " attempts, "
       << t.takeovers << " takeovers, " << t.contests << " contests for a rank, " << t.incidents
       << " incidents; succeeded " << t.succeeded << ", failed " << t.failed << ", stopped "
       << t.stopped << ", impossible " << t.impossible << ", no quorum left " << t.unended
       << ", begun anew by who could not know " << t.begun_twice << ", left out as too large "
       << t.left_out << "; digest " << std::hex << t.digest;
  return text.str();
}

Campaign run_seeds(const Seeds& seeds, int processes) {
  const int workers = std::clamp(processes, 1, kProcessesMax);
  Slates slates(workers);
  std::vector<pid_t> children;
  using Clock = std::chrono::steady_clock;
  const auto until = seeds.seconds == 0 ? Clock::time_point::max()
                                        : Clock::now() + std::chrono::seconds(seeds.seconds);
  for (int worker = 0; worker < workers; ++worker) {
    children.push_back(run_in_child([&, worker] {
      Slate& slate = slates[worker];
      const auto step = static_cast<std::uint64_t>(workers);
      for (std::uint64_t i = static_cast<std::uint64_t>(worker);
           i < seeds.count && Clock::now() < until; i += step) {
        slate.seed = seeds.first + i;
        const SimOptions options = draw(slate.seed);
        if (options.machines() > seeds.nodes_max) {
          ++slate.tally.left_out;
          continue;
        }
        Cluster story(options, draw_faults(options));
        story.run();
        if (!story.violation().empty()) {
          slate.wrong = true;
          return;
        }
        add(slate.tally, story);
      }
    }));
  }
  Campaign campaign;
  for (int worker = 0; worker < workers; ++worker) {
    const bool well = ended_well(children[static_cast<std::size_t>(worker)]);
    const Slate& slate = slates[worker];
    for (const auto field : kCounts) {
      campaign.tally.*field += slate.tally.*field;
    }
    if (!well || slate.wrong) {
      campaign.failed_seed = std::min(campaign.failed_seed.value_or(slate.seed), slate.seed);
    }
  }
  return campaign;
}

std::string verdict_of(const SimOptions& options, const std::vector<Fault>& schedule) {
  Slates slates(1);
  const bool well = ended_well(run_in_child([&] {
    silence_stderr();
    Cluster story(options, schedule);
    story.run();
    std::snprintf(slates[0].text.data(), kTextMax, "%s", story.violation().c_str());
  }));
  return well ? slates[0].text.data() : "a check failed, and the process aborted";
}

std::string story_text(std::uint64_t seed, const std::vector<Fault>& schedule) {
  return "seed " + std::to_string(seed) + "\n" + to_text(schedule);
}

std::optional<Story> parse_story(const std::string& text, std::string& bad_line) {
  Story story;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') {
      continue;
    }
    unsigned long long seed = 0;
    if (std::sscanf(line.c_str(), "seed %llu", &seed) == 1) {
      story.seed = seed;
    } else if (const auto fault = parse_fault(line)) {
      story.schedule.push_back(*fault);
    } else {
      bad_line = line;
      return std::nullopt;
    }
  }
  return story;
}

Explanation explain(std::uint64_t seed) {
  const SimOptions options = draw(seed);
  const std::vector<Fault> all = draw_faults(options);
  const std::string wrong = verdict_of(options, all);
  if (wrong.empty()) {
    return {all, "# nothing goes wrong\n" + story_text(seed, all)};
  }
  std::vector<Fault> few = shrink(
      all, [&](const std::vector<Fault>& some) { return !verdict_of(options, some).empty(); });
  std::string text = "# " + wrong + "\n# with " + std::to_string(few.size()) + " of " +
                     std::to_string(all.size()) + " faults: " + verdict_of(options, few) + "\n" +
                     story_text(seed, few);
  return {std::move(few), std::move(text)};
}

}  // namespace ddprun::sim
