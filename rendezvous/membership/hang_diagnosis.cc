#include "rendezvous/membership/hang_diagnosis.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// Without the worker runtime nothing is known of collectives, so such a worker never waits here.
bool waits(const WorkerPosition& one) {
  return one.told && !one.operation.empty();
}

/// Numbers of collectives rise by one on each rank, and all ranks call them in one order. So one
/// that has entered a later collective has been in this one.
bool has_entered(const WorkerPosition& one, const WorkerPosition& waiting) {
  return one.entered[static_cast<std::size_t>(waiting.group)] >= waiting.sequence;
}

std::string name_of(const WorkerPosition& waiting) {
  std::string text = fmt::format("{} #{}", waiting.operation, waiting.sequence);
  if (waiting.bytes > 0) {
    text += " (" + bytes_text(waiting.bytes) + ")";
  }
  return text;
}

/// "is in all_reduce #17", "is at training step 16", "is saving a snapshot".
std::string whereabouts(const WorkerPosition& one, bool several) {
  const std::string is = several ? "are " : "is ";
  std::string text;
  if (!one.told) {
    text = std::string(several ? "tell" : "tells") + " nothing (without the worker runtime)";
  } else if (waits(one)) {
    text = (several ? "wait in " : "waits in ") + name_of(one);
  } else if (one.phase == "training") {
    // Steps that are done are counted: it is in the one after.
    text = fmt::format("{}at training step {}", is, one.steps + 1);
  } else {
    text = is + one.phase;
  }
  return one.standstill.empty() ? text : text + ", " + one.standstill;
}

/// Sorted, as ranks_text() wants them.
std::vector<int> ranks_of(const std::vector<const WorkerPosition*>& positions) {
  std::vector<int> ranks;
  ranks.reserve(positions.size());
  for (const WorkerPosition* one : positions) {
    ranks.push_back(one->rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

using Positions = std::vector<const WorkerPosition*>;

/// Rule 1: who has not entered what others wait in, and what that is.
std::pair<Positions, const WorkerPosition*> late_ones(const std::vector<WorkerPosition>& all) {
  const WorkerPosition* what = nullptr;
  // The lowest entered number of each group tells whether anybody is late for a collective.
  std::array<std::uint64_t, 2> lowest{UINT64_MAX, UINT64_MAX};
  for (const WorkerPosition& one : all) {
    for (std::size_t group = 0; one.told && group < lowest.size(); ++group) {
      lowest[group] = std::min(lowest[group], one.entered[group]);
    }
  }
  const auto order = [](const WorkerPosition& one) { return std::pair(-one.group, one.sequence); };
  for (const WorkerPosition& one : all) {
    if (waits(one) && lowest[static_cast<std::size_t>(one.group)] < one.sequence &&
        (what == nullptr || order(one) < order(*what))) {
      what = &one;
    }
  }
  Positions late;
  if (what == nullptr) {
    return {late, what};
  }
  for (const WorkerPosition& one : all) {
    if (one.told && !has_entered(one, *what)) {
      late.push_back(&one);
    }
  }
  DDP_CHECK(!late.empty(), "the lowest number is that of a rank that has not entered");
  // One that waits elsewhere is itself held up by a rank that does not wait at all.
  const bool all_wait =
      std::all_of(late.begin(), late.end(), [](auto* one) { return waits(*one); });
  if (!all_wait) {
    std::erase_if(late, [](auto* one) { return waits(*one); });
  }
  return {late, what};
}

/// Rule 3: the smallest of the parties that wait in different collectives of one number.
Positions odd_ones(const std::vector<WorkerPosition>& all) {
  std::map<std::tuple<int, std::uint64_t>, std::map<std::string, Positions>> parties;
  for (const WorkerPosition& one : all) {
    if (waits(one)) {
      parties[{one.group, one.sequence}][one.operation].push_back(&one);
    }
  }
  for (const auto& [number, by_name] : parties) {
    if (by_name.size() > 1) {
      return std::min_element(
                 by_name.begin(), by_name.end(),
                 [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); })
          ->second;
    }
  }
  return {};
}

/// Rule 2: those that cannot react at all. Stopped by a signal, or inside the kernel, they could
/// still have entered the collective before.
Positions standing(const std::vector<WorkerPosition>& all) {
  Positions found;
  for (const WorkerPosition& one : all) {
    if (!one.standstill.empty()) {
      found.push_back(&one);
    }
  }
  return found;
}

const WorkerPosition& longest_still(const std::vector<WorkerPosition>& all) {
  DDP_CHECK(!all.empty(), "somebody hangs");
  return *std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.still_for, -a.rank) < std::tuple(b.still_for, -b.rank);
  });
}

/// Equal positions are told once, for all their ranks.
std::string story(const Positions& positions, const std::string& in_between = {}) {
  std::map<std::string, Positions> by_place;
  for (const WorkerPosition* one : positions) {
    by_place[whereabouts(*one, true)].push_back(one);
  }
  // The text is the key, so that thousands of ranks in one place cost one clause.
  std::vector<Positions> groups;
  for (auto& [place, members] : by_place) {
    groups.push_back(std::move(members));
  }
  std::sort(groups.begin(), groups.end(), [](const Positions& a, const Positions& b) {
    return ranks_of(a).front() < ranks_of(b).front();
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(groups.size(), kPositionsToldMax); ++i) {
    const bool several = groups[i].size() > 1;
    text += (text.empty() ? "" : "; ") + ranks_text(ranks_of(groups[i])) + " ";
    if (!in_between.empty()) {
      text += (several ? "have " : "has ") + in_between + (several ? ": they " : ": it ");
    }
    text += whereabouts(*groups[i].front(), several);
  }
  if (groups.size() > kPositionsToldMax) {
    std::size_t others = 0;
    for (std::size_t i = kPositionsToldMax; i < groups.size(); ++i) {
      others += groups[i].size();
    }
    text += fmt::format("; {} more ranks are elsewhere", others);
  }
  return text;
}

Positions without(const std::vector<WorkerPosition>& all, const Positions& some) {
  std::vector<bool> among(all.size());
  for (const WorkerPosition* one : some) {
    among[static_cast<std::size_t>(one - all.data())] = true;
  }
  Positions rest;
  for (const WorkerPosition& one : all) {
    if (!among[static_cast<std::size_t>(&one - all.data())]) {
      rest.push_back(&one);
    }
  }
  DDP_CHECK(rest.size() + some.size() == all.size(), "each position is in one of the two");
  return rest;
}

std::string joined(const std::string& one, const std::string& other) {
  return one.empty() || other.empty() ? one + other : one + "; " + other;
}

}  // namespace

/// The rules of the header, in their order; the first one that names somebody wins. Each verdict
/// also says where the others stood, because that is what people compare it with.
HangDiagnosis judge_hang(std::vector<WorkerPosition> all) {
  DDP_CHECK(!all.empty(), "somebody hangs");
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  const auto twice = std::adjacent_find(
      all.begin(), all.end(), [](const auto& a, const auto& b) { return a.rank == b.rank; });
  DDP_CHECK(twice == all.end(), "each rank stands in one place");
  HangDiagnosis verdict;
  auto [late, what] = late_ones(all);
  if (!late.empty()) {
    const Positions rest = without(all, late);
    const bool one_place = std::all_of(rest.begin(), rest.end(), [what = what](const auto* one) {
      return waits(*one) && name_of(*one) == name_of(*what);
    });
    verdict.text =
        joined(story(rest), story(late, "not entered " + (one_place ? "it" : name_of(*what))));
  } else if (late = standing(all); !late.empty()) {
    verdict.text = joined(story(without(all, late)), story(late));
  } else if (late = odd_ones(all); !late.empty()) {
    verdict.text = story(without(all, {})) + ": they do not call the same collectives";
  } else if (std::none_of(all.begin(), all.end(), waits) && longest_still(all).told) {
    late.push_back(&longest_still(all));
    verdict.text = joined(story(late), story(without(all, late)));
  } else {
    verdict.text = story(without(all, {}));
    const bool one_place = std::all_of(all.begin(), all.end(), [&](const WorkerPosition& one) {
      return waits(one) && std::tuple(one.group, one.sequence) ==
                               std::tuple(all.front().group, all.front().sequence);
    });
    verdict.text += one_place && all.size() > 1 ? ": all have entered it, so none is late" : "";
  }
  verdict.late = ranks_of(late);
  verdict.first = verdict.late.empty() ? longest_still(all).rank : verdict.late.front();
  DDP_CHECK(verdict.late.size() <= all.size(), "those that are late are some of all");
  return verdict;
}

/// A pair is written "0, 1" and not "0-1": a range of two reads as if more were in between.
std::string ranks_text(const std::vector<int>& ranks) {
  constexpr int kRangesMax = 12;
  std::string out;
  int ranges = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    if (++ranges > kRangesMax) {
      out += fmt::format(" and {} more", ranks.size() - i);
      break;
    }
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    out += (out.empty() ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) {
      out += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    }
    i = last + 1;
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + out;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.4g %s", value, kUnits[unit]);
  return text;
}

}  // namespace ddprun
