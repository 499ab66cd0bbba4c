// Saves in the background, on a real disk and by real processes.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "ddp/ddp.h"
#include "ddp/snapshot.h"
#include "ranks.h"
#include "tests/support/event_wait.h"
#include "tests/support/temp_dir.h"
#include "worker_runtime/snapshot/host_copy.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;
using ddp_test::expect;
using ddp_test::Ranks;
using ddp_test::require_on_all_ranks;
using ddprun::test::TempDir;
using ddprun::test::wait_until;

constexpr InitOptions kOptions{.timeout = std::chrono::seconds(30),
                               .connect_timeout = std::chrono::seconds(15)};

/// Large enough that a write is seen from outside.
constexpr std::int64_t kElements = 4 << 20;

std::vector<NamedTensor> filled_with(double value, std::int64_t elements = 1000) {
  std::vector<NamedTensor> tensors = {{"a", Tensor::empty({elements})},
                                      {"b", Tensor::empty({3, 5}, DType::f64)}};
  for (const auto& [name, tensor] : tensors) {
    tensor.fill(value);
  }
  return tensors;
}

SnapshotState epoch(std::int64_t number) {
  SnapshotState state;
  state.model = "test";
  state.epochs_run = number;
  return state;
}

/// What another run finds: the epoch, and whether all values are `value`.
bool finds(const Context& context, const fs::path& path, std::int64_t number, double value,
           std::int64_t elements = 1000) {
  Snapshot reader(context, {.path = path, .read_only = true, .say = {}});
  const auto tensors = filled_with(-1, elements);
  const auto state = reader.load("test", tensors);
  const auto values = tensors[0].tensor.to_vector<float>();
  return state && state->epochs_run == number &&
         std::set<float>(values.begin(), values.end()) == std::set{static_cast<float>(value)} &&
         tensors[1].tensor.to_vector<double>() == std::vector<double>(15, value);
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("a save in the background holds the state as it was when it was called", "[snapshot]") {
  const TempDir dir;
  require_on_all_ranks(1, "ok", [&dir](int) -> std::string {
    const Context context = init(kOptions);
    Snapshot snapshot(context, {.path = dir.path() / "s", .say = {}});
    const auto tensors = filled_with(1, kElements);
    expect(!snapshot.load("test", tensors), "nothing is there");
    expect(!snapshot.poll() && !snapshot.wait(), "no save, no outcome");
    expect(!snapshot.save_async(epoch(1), tensors), "the first save follows none");
    for (const auto& [name, tensor] : tensors) {
      tensor.fill(2);  // training goes on while the thread writes
    }
    const auto outcome = snapshot.wait();
    expect(outcome && outcome->result == SaveResult::saved, "it is on the disk");
    expect(outcome->state.epochs_run == 1 && outcome->state.attempt == 1, "what was saved");
    expect(!snapshot.wait() && !snapshot.poll(), "an outcome is told once");
    expect(finds(context, dir.path() / "s", 1, 1, kElements), "the state before training went on");
    return "ok";
  });
}

TEST_CASE("a save waits for the one before, and says once that training waits", "[snapshot]") {
  const TempDir dir;
  require_on_all_ranks(1, "ok", [&dir](int) -> std::string {
    const Context context = init(kOptions);
    std::vector<std::string> lines;
    const auto say = [&](std::string_view line) { lines.emplace_back(line); };
    Snapshot snapshot(context, {.path = dir.path() / "s", .keep = 5, .say = say});
    const auto tensors = filled_with(1, kElements);
    static_cast<void>(snapshot.load("test", tensors));
    for (int i = 1; i <= 3; ++i) {
      const auto before = snapshot.save_async(epoch(i), tensors);
      expect(before.has_value() == (i > 1), "the outcome of the save before");
      expect(!before || (before->result == SaveResult::saved && before->state.epochs_run == i - 1),
             "in order");
    }
    expect(snapshot.save(epoch(4), tensors) == SaveResult::saved, "after the one before");
    const auto third = snapshot.poll();
    expect(third && third->state.epochs_run == 3, "a save in between takes no outcome away");
    expect(lines.size() == 1, "said once");
    expect(lines[0] == (dir.path() / "s").string() +
                           ": the snapshot before is still being written, training waits for it; "
                           "save less often, or to a faster disk",
           lines[0]);
    expect(names_in(dir.path() / "s").size() == 4 + 1, "four snapshots and the mark");
    return "ok";
  });
}

TEST_CASE("the end of a Snapshot waits for what is being written", "[snapshot]") {
  const TempDir dir;
  require_on_all_ranks(1, "ok", [&dir](int) -> std::string {
    const Context context = init(kOptions);
    {
      Snapshot snapshot(context, {.path = dir.path() / "s", .say = {}});
      const auto tensors = filled_with(7, kElements);
      static_cast<void>(snapshot.load("test", tensors));
      static_cast<void>(snapshot.save_async(epoch(3), tensors));
    }
    expect(finds(context, dir.path() / "s", 3, 7, kElements), "it was committed");
    return "ok";
  });
}

TEST_CASE("a disk that takes nothing is said in the next call, and training goes on",
          "[snapshot]") {
  const TempDir dir;
  require_on_all_ranks(1, "ok", [&dir](int) -> std::string {
    const Context context = init(kOptions);
    std::vector<std::string> lines;
    const auto say = [&](std::string_view line) { lines.emplace_back(line); };
    Snapshot snapshot(context, {.path = dir.path() / "s", .say = say});
    const auto tensors = filled_with(1);
    static_cast<void>(snapshot.load("test", tensors));
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    const rlimit none{0, limit.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
    static_cast<void>(snapshot.save_async(epoch(1), tensors));
    const auto failed = snapshot.wait();
    ::setrlimit(RLIMIT_FSIZE, &limit);
    expect(failed && failed->result == SaveResult::failed, "it failed");
    expect(
        lines.size() == 1 && lines[0].ends_with("cannot write: File too large; snapshot 00000001 "
                                                "was not saved, training goes on"),
        lines.empty() ? "a line" : lines[0]);
    static_cast<void>(snapshot.save_async(epoch(2), tensors));
    expect(snapshot.wait()->result == SaveResult::saved, "the next one succeeds");
    expect(finds(context, dir.path() / "s", 2, 1), "and is found");
    return "ok";
  });
}

TEST_CASE("one rank writes a shared directory in the background, the others return at once",
          "[snapshot]") {
  const TempDir dir;
  require_on_all_ranks(3, "ok", [&dir](int rank) -> std::string {
    const Context context = init(kOptions);
    Snapshot snapshot(context, {.path = dir.path() / "s", .say = {}});
    const auto tensors = filled_with(rank);
    static_cast<void>(snapshot.load("test", tensors));
    static_cast<void>(snapshot.save_async(epoch(1), tensors));
    const auto outcome = snapshot.wait();
    expect(outcome.has_value() == (rank == 0) && snapshot.writes() == (rank == 0), "the writer");
    context.group().barrier();
    expect(finds(context, dir.path() / "s", 1, 0), "rank 0's state");
    return "ok";
  });
}

TEST_CASE("a background save of an earlier attempt is not committed, and its worker is told",
          "[snapshot]") {
  const TempDir dir;
  const fs::path path = dir.path() / "s";
  Ranks old(1, [&path](int) -> std::string {
    const Context context = init(kOptions);
    Snapshot snapshot(context, {.path = path, .say = {}});
    const auto tensors = filled_with(1, kElements);
    static_cast<void>(snapshot.load("test", tensors));
    for (int i = 1; i <= 10'000; ++i) {
      static_cast<void>(snapshot.save_async(epoch(i), tensors));
    }
    return "was not stopped";
  });
  // Stops the whole process while its thread writes the next snapshot, after some that it has
  // saved.
  const auto writes = [&path] {
    const auto committed = names_in(path);
    const auto aside = names_in(path / ".attempt-00000001");
    return committed.size() > 1 && !aside.empty() && aside.back() > committed.back();
  };
  REQUIRE(wait_until([&] { return writes(); }));
  old.signal(0, SIGSTOP);
  require_on_all_ranks(1, "ok", [&path](int) -> std::string {
    const Context context = init(kOptions);
    Snapshot snapshot(context, {.path = path, .say = {}});
    const auto tensors = filled_with(2, kElements);
    const auto state = snapshot.load("test", tensors);
    expect(state && state->attempt == 1, "what the stopped one had committed");
    expect(snapshot.save(epoch(20'000), tensors) == SaveResult::saved, "its own");
    return "ok";
  });
  const auto before = names_in(path);
  old.signal(0, SIGCONT);
  const auto outcome = old.finish()[0];
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.text,
             Catch::Contains("attempt 2 saves here now; this worker belongs to attempt 1 and may "
                             "not any more; ") &&
                 Catch::EndsWith(" was not saved"));
  CHECK(names_in(path) == before);
}

TEST_CASE("a copy of the state keeps its memory for the next one", "[snapshot]") {
  HostCopy copy;
  const auto first = filled_with(1);
  copy.take(first);
  const auto* memory = copy.bytes().data();
  CHECK(copy.bytes().size() == 1000 * 4 + 15 * 8);
  CHECK(*reinterpret_cast<const float*>(memory + 4 * 999) == 1);
  copy.take(filled_with(2, 500));  // smaller
  CHECK(copy.bytes().data() == memory);
  CHECK(copy.bytes().size() == 500 * 4 + 15 * 8);
  CHECK(*reinterpret_cast<const float*>(memory + 4 * 499) == 2);
  CHECK(*reinterpret_cast<const double*>(memory + 500 * 4) == 2);
  copy.take(filled_with(3));
  CHECK(copy.bytes().data() == memory);
  copy.take(filled_with(4, 2000));
  CHECK(copy.bytes().size() == 2000 * 4 + 15 * 8);
  CHECK(copy.header().size() % 8 == 0);
}

}  // namespace ddp
