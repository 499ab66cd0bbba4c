// ettr: the effective training time ratio of a job, simulated and by the closed form.
// docs/simulation.md describes it.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <string>

#include "tests/sim/ettr.h"

namespace {

using namespace ddprun::sim;

constexpr const char* kUsage =
    "usage: ettr --mtbf 7.9h [--interval 754s] --cost 10s --recovery 300s [--nodes 4]\n"
    "            [--faults 40000] [--seed 1]\n"
    "       --recovery is the sum; or its parts: --detect 3s --stop 1s --rendezvous 0.02s\n"
    "       --spawn 0.1s --first-step 20s. Without --interval the best one is taken.\n"
    "       Times end in ms, s, m or h.\n";

std::optional<Duration> duration_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::map<std::string, double> units{
      {"ms", 1e-3}, {"s", 1}, {"", 1}, {"m", 60}, {"h", 3600}};
  const auto unit = units.find(end);
  if (end == text.c_str() || unit == units.end() || value < 0) {
    return std::nullopt;
  }
  return Duration(static_cast<std::int64_t>(value * unit->second * 1e9));
}

int refuse(const std::string& why) {
  std::cerr << "ettr: " << why << "\n" << kUsage;
  return 2;
}

/// A sentence when it is wrong.
std::optional<std::string> take(EttrInput& input, const std::string& name,
                                const std::string& value) {
  const std::map<std::string, Duration EttrInput::*> times{
      {"--mtbf", &EttrInput::mtbf},
      {"--interval", &EttrInput::interval},
      {"--cost", &EttrInput::snapshot_cost},
      {"--recovery", &EttrInput::first_step},
      {"--detect", &EttrInput::detect},
      {"--stop", &EttrInput::stop},
      {"--rendezvous", &EttrInput::rendezvous},
      {"--spawn", &EttrInput::spawn},
      {"--first-step", &EttrInput::first_step}};
  if (const auto time = times.find(name); time != times.end()) {
    const auto duration = duration_of(value);
    if (!duration) {
      return name + " is '" + value + "', which is no time such as 300s";
    }
    input.*(time->second) = *duration;
    return std::nullopt;
  }
  const int count = std::atoi(value.c_str());
  if (count < 1) {
    return name + " is '" + value + "', which is no count";
  }
  if (name == "--nodes") {
    input.nodes = count;
  } else if (name == "--faults") {
    input.faults = count;
  } else if (name == "--seed") {
    input.seed = static_cast<std::uint64_t>(count);
  } else {
    return "'" + name + "' is no option";
  }
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  EttrInput input;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) {
      return refuse(std::string(argv[i]) + " needs a value");
    }
    if (const auto wrong = take(input, argv[i], argv[i + 1])) {
      return refuse(*wrong);
    }
  }
  if (input.mtbf.count() == 0) {
    return refuse("the mean time between faults is needed: --mtbf 7.9h");
  }
  if (input.interval.count() == 0) {
    input.interval = best_interval(input);
  }
  if (input.interval.count() == 0) {
    return refuse("an interval between snapshots is needed: --interval 754s");
  }
  const Ettr seen = simulate_ettr(input);
  std::printf("snapshot every          %.1f s of work\n",
              static_cast<double>(input.interval.count()) / 1e9);
  std::printf("simulated               %.4f +- %.4f (99 %%), %d attempts in %.1f days\n",
              seen.ratio, seen.half_width, seen.attempts,
              static_cast<double>(seen.simulated.count()) / 1e9 / 86400);
  std::printf("closed form             %.4f\n", closed_form_ettr(input));
  return 0;
}
