// Attempts fence each other: a writer that was stopped, at whatever call, and goes on after a later
// attempt opened the path changes nothing there.
#include "snapshot_disk.h"

namespace ddp {
namespace {

using Catch::Matchers::Contains;
using ddp_test::disk_with_two;
using ddp_test::highest_attempt;
using ddp_test::kPath;
using ddp_test::Names;
using ddp_test::Numbers;
using ddp_test::scan;
using ddp_test::write;

/// What a later attempt does while the earlier one is stopped.
enum class Later { opens, saves, saves_thrice };

/// The snapshots that are there: names and contents.
std::vector<Candidate> snapshots(const std::shared_ptr<LossyFiles>& files) {
  const auto found = scan(files);
  CHECK(found.report.complaints.empty());
  return found.report.verified;
}

/// The next attempt, as Snapshot::load() opens the path and Snapshot::save() saves there.
struct LaterAttempt {
  explicit LaterAttempt(const std::shared_ptr<LossyFiles>& files) : directory(files, kPath, 2) {
    attempt = highest_attempt(directory) + 1;
    REQUIRE(directory.claim(attempt));
    const auto report = directory.scan();
    CHECK(report.complaints.empty());
    found = report.verified;
    number = report.highest_number;
  }
  void save() {
    REQUIRE(write(directory, ++number, attempt));
    REQUIRE(directory.prune());
  }

  SnapshotDirectory directory;
  std::uint64_t attempt = 0;
  std::uint64_t number = 0;
  std::vector<Candidate> found;
};

}  // namespace

TEST_CASE("a writer that was stopped at any call changes nothing once a later attempt has begun",
          "[snapshot]") {
  for (const auto later : {Later::opens, Later::saves, Later::saves_thrice}) {
    int refused = 0;
    for (std::size_t call = 0;; ++call) {
      auto files = disk_with_two();
      SnapshotDirectory zombie(files, kPath, 2);
      REQUIRE(zombie.claim(2));
      static_cast<void>(zombie.scan());
      std::optional<LaterAttempt> next;
      std::vector<Candidate> before;
      files->run_before_call(call, [&] {
        next.emplace(files);
        for (int i = 0; i < (later == Later::saves ? 1 : later == Later::opens ? 0 : 3); ++i) {
          next->save();
        }
        before = snapshots(files);
      });
      const auto written = write(zombie, 3, 2);
      const auto pruned = written ? zombie.prune() : Result<void>();
      INFO("stopped before call " << call << (written ? "" : ": " + written.error().sentence()));
      if (!next) {
        CHECK(written);
        CHECK(pruned);
        CHECK(call > 20);  // the loop has gone through the whole of a save
        break;
      }
      CHECK(snapshots(files) == before);
      // What it had committed the later attempt found; what it had not is lost, and it knows.
      const bool committed = next->found.front().number == 3;
      CHECK((written || zombie.superseded()));
      CHECK((committed || !written));
      if (!written) {
        ++refused;
        CHECK_THAT(written.error().sentence(),
                   Contains("/jobs/snapshot.ddp: attempt 3 saves here now; this worker belongs to "
                            "attempt 2 and may not any more"));
      }
      // Nor is anything in the way of what comes after.
      next->save();
      CHECK(scan(files).numbers.front() == next->number);
      CHECK(scan(files).report.verified.front().attempt == 3);
      CHECK(write(zombie, 4, 2).has_error());
    }
    CHECK(refused > 12);
  }
}

TEST_CASE("an attempt that was stopped as it opened the path is behind one that opened it since",
          "[snapshot]") {
  for (std::size_t call = 0;; ++call) {
    auto files = disk_with_two();
    SnapshotDirectory zombie(files, kPath, 2);
    const auto attempt = highest_attempt(zombie) + 1;
    std::optional<LaterAttempt> next;
    std::vector<Candidate> before;
    files->run_before_call(call, [&] {
      next.emplace(files);
      next->save();
      before = snapshots(files);
    });
    const auto claimed = zombie.claim(attempt);
    if (!next) {
      CHECK(claimed);
      CHECK(call > 5);
      break;
    }
    INFO("stopped before call " << call);
    // The number that it chose may be the later one's too: whose mark it is decides.
    CHECK_FALSE(write(zombie, 9, attempt));
    CHECK(snapshots(files) == before);
    next->save();
    CHECK(scan(files).numbers == Numbers{next->number, next->number - 1});
  }
}

TEST_CASE("what is half removed by a stopped writer is no snapshot, and its removal is finished",
          "[snapshot]") {
  auto files = disk_with_two();
  SnapshotDirectory zombie(files, kPath, 1);
  REQUIRE(write(zombie, 3, 2));
  files->fail_call(7);  // as it takes snapshot 1 apart
  CHECK_FALSE(zombie.prune());
  files->heal();
  CHECK(snapshots(files).size() == 1);
  LaterAttempt next(files);
  CHECK(*files->list(kPath) == Names{mark_name(3), "00000003"});
  CHECK(files->list(kPath / mark_name(3))->empty());
}

TEST_CASE("a new job comes after every attempt of the jobs before it", "[snapshot]") {
  auto files = disk_with_two();
  for (std::uint64_t attempt = 2; attempt < 8; ++attempt) {
    LaterAttempt next(files);
    CHECK(next.attempt == attempt);
    next.save();
  }
  CHECK(snapshots(files).front() > snapshots(files).back());
  // Marks do not come along with `cp snapshot.ddp/*`, but the snapshots know their attempt.
  REQUIRE(files->remove_all(kPath / mark_name(7)));
  CHECK(LaterAttempt(files).attempt == 8);
}

TEST_CASE("a snapshot path that was removed while the job runs is made anew", "[snapshot]") {
  auto files = disk_with_two();
  LaterAttempt running(files);
  REQUIRE(files->remove_all(kPath));
  running.save();
  CHECK(scan(files).numbers == Numbers{3});
  LaterAttempt next(files);
  CHECK(next.attempt == running.attempt + 1);
  CHECK_FALSE(write(running.directory, 4, running.attempt));
}

TEST_CASE("a mark of the same attempt that another process made is respected", "[snapshot]") {
  auto files = disk_with_two();
  SnapshotDirectory one(files, kPath, 2);
  SnapshotDirectory other(files, kPath, 2);
  REQUIRE(one.claim(2));
  const auto refused = write(other, 3, 2);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().sentence(), Contains("another process saves as attempt 2"));
  CHECK_FALSE(other.superseded());
  CHECK(write(one, 3, 2));
}

TEST_CASE("a claim survives a crash of the machine, at whatever call it comes", "[snapshot]") {
  for (std::size_t call = 0;; ++call) {
    auto files = disk_with_two();
    SnapshotDirectory directory(files, kPath, 2);
    const auto before = files->calls();
    files->die_at_call(call);
    const auto claimed = directory.claim(2);
    const bool reached = files->calls() - before > call;
    files->crash();
    INFO("call " << call);
    CHECK(scan(files).numbers == Numbers{2, 1});
    SnapshotDirectory after(files, kPath, 2);
    CHECK(highest_attempt(after) >= (claimed ? 2 : 1));
    if (!reached) {
      CHECK(claimed);
      break;
    }
  }
}

TEST_CASE(
    "an attempt that cannot be counted on from is damage, and the next attempt follows others",
    "[snapshot]") {
  for (const std::uint64_t absurd : {~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    auto files = disk_with_two();
    // A snapshot as the library writes it, but for its attempt.
    const auto manifest = files->read(kPath / snapshot_name(2) / kManifestFile, kSmallFileBytesMax);
    REQUIRE(manifest);
    auto claimed =
        decode_manifest({reinterpret_cast<const char*>(manifest->data()), manifest->size()});
    REQUIRE(claimed);
    claimed->attempt = absurd;
    const auto file = files->create(kPath / snapshot_name(2) / kManifestFile);
    REQUIRE(file);
    REQUIRE((*file)->append(bytes_of(encode_manifest(*claimed))));
    SnapshotDirectory directory(files, kPath, 2);
    CHECK(highest_attempt(directory) == 1);
    REQUIRE(directory.claim(highest_attempt(directory) + 1));
    const auto found = scan(files);
    CHECK(found.numbers == Numbers{1});
    REQUIRE(found.report.complaints.size() == 1);
    CHECK_THAT(found.report.complaints[0],
               Contains("/00000002/manifest.json: damaged snapshot passed over: ") &&
                   Contains("attempt " + std::to_string(absurd)));
  }
}

}  // namespace ddp
