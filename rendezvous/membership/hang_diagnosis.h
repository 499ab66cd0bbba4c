// HangDiagnosis: where all workers of a job stood when it hung, compared: who waits in which
// collective and who has not entered it (complaint I-12: "which node hangs?"). Pure.
//
// The rule, in order; ranks compare by the numbers of their collectives, which are equal on all:
//   1. A rank waits in a collective that others have not entered: those are late. Of several such
//      collectives the one with the lowest number counts: the others follow from it. Who is late
//      and waits elsewhere is late only when all who are late do.
//   2. Nobody is late, but workers stand still (stopped by a signal, or inside the kernel): those.
//   3. Ranks are in different collectives of one number: the fewer ones (the program's mistake).
//   4. Nobody waits: the one that has stood there for the longest time.
//   5. All wait in one collective, or nobody tells anything: nobody can be named.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// Where one worker stood.
struct WorkerPosition {
  int rank = 0;
  bool told = false;  ///< it uses the worker runtime; else only the rank and the last two count
  std::string phase = {};      ///< "training"
  std::int64_t steps = 0;      ///< optimizer steps made in this attempt
  std::string operation = {};  ///< the collective that it waits in: "all_reduce"; empty: in none
  int group = 0;               ///< of that: 0 of the CPU transport, 1 of the GPUs
  std::uint64_t sequence = 0;  ///< of that
  std::uint64_t bytes = 0;     ///< of that
  std::array<std::uint64_t, 2> entered = {};  ///< last collective called, by group
  std::chrono::nanoseconds still_for{};       ///< since its last progress
  std::string standstill = {};  ///< why it cannot react: "stopped by a signal (state T)"; or empty

  friend bool operator==(const WorkerPosition&, const WorkerPosition&) = default;
};

/// That a node tells; of more workers the first.
inline constexpr std::size_t kPositionsMax = 1024;
inline constexpr std::size_t kPhaseBytesMax = 64;
inline constexpr std::size_t kStandstillBytesMax = 128;
/// Different positions told in a verdict; more are counted.
inline constexpr std::size_t kPositionsToldMax = 6;

struct HangDiagnosis {
  std::vector<int> late;  ///< ranks; empty: nobody can be named
  int first = 0;          ///< the one to show: the lowest late rank, else the longest still
  std::string text;       ///< clauses: "ranks 0-2 wait in all_reduce #17 (4 MiB); rank 3 has ..."
};

/// `positions` of one attempt, each rank once, at least one.
HangDiagnosis judge_hang(std::vector<WorkerPosition> positions);

/// {0, 1, 2, 5} -> "ranks 0-2, 5"; {4} -> "rank 4". Sorted input; a dozen ranges, the rest counted.
std::string ranks_text(const std::vector<int>& ranks);
/// 4194304 -> "4 MiB", 1536 -> "1.5 KiB", 12 -> "12 B".
std::string bytes_text(std::uint64_t bytes);

}  // namespace ddprun
