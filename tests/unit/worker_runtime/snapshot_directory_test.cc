#include "worker_runtime/snapshot/snapshot_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "snapshot_disk.h"
#include "tests/support/temp_dir.h"

namespace ddp {
namespace {

using Catch::Matchers::Contains;
using ddp_test::disk_with_two;
using ddp_test::kPath;
using ddp_test::Names;
using ddp_test::Numbers;
using ddp_test::scan;

/// By the attempt after the one of disk_with_two().
Result<void> write(SnapshotDirectory& directory, std::uint64_t number) {
  return ddp_test::write(directory, number, 2);
}

Names names_in(LossyFiles& files) {
  return *files.list(kPath);
}

}  // namespace

TEST_CASE("what was written is found, verified and read back, newest first", "[snapshot]") {
  const auto found = scan(disk_with_two());
  CHECK(found.numbers == Numbers{2, 1});
  CHECK(found.report.highest_number == 2);
  CHECK(found.report.complaints.empty());
}

TEST_CASE("a path where nothing is yet has no snapshots", "[snapshot]") {
  const auto found = scan(std::make_shared<LossyFiles>());
  CHECK(found.numbers.empty());
  CHECK(found.report.problem.empty());
}

TEST_CASE("only the newest are kept, and what killed workers left is removed", "[snapshot]") {
  auto files = disk_with_two();
  REQUIRE(files->make_directories(kPath / mark_name(1) / "00000003"));
  REQUIRE(files->make_directory(kPath / ".writing-00000001"));  // an earlier version's
  REQUIRE(files->make_directory(kPath / ".removing-00000001"));
  SnapshotDirectory directory(files, kPath, 2);
  REQUIRE(write(directory, 3));
  REQUIRE(directory.prune());
  CHECK(names_in(*files) == Names{mark_name(2), "00000002", "00000003"});
  CHECK(files->list(kPath / mark_name(2))->empty());
}

TEST_CASE("things at the snapshot path that are not ours are left alone", "[snapshot]") {
  auto files = disk_with_two();
  REQUIRE(files->make_directory(kPath / "notes"));
  SnapshotDirectory directory(files, kPath, 1);
  REQUIRE(directory.claim(2));
  CHECK(directory.scan().complaints.empty());
  REQUIRE(directory.prune());
  CHECK(names_in(*files) == Names{mark_name(2), "00000002", "notes"});
}

TEST_CASE("below a directory that may be written and not read snapshots are saved", "[snapshot]") {
  auto files = std::make_shared<LossyFiles>();
  REQUIRE(files->make_directories(kPath.parent_path()));
  SnapshotDirectory directory(files, kPath, 1);
  SECTION("which can be synced by nobody") {
    files->withhold(kPath.parent_path(), EACCES);
    CHECK(write(directory, 1));
  }
  SECTION("and one whose disk fails is tried again") {
    files->withhold(kPath.parent_path(), EIO);
    CHECK_FALSE(write(directory, 1));
    CHECK_FALSE(write(directory, 1));
  }
}

TEST_CASE("what a user keeps under a snapshot's name is neither removed nor counted",
          "[snapshot]") {
  auto files = disk_with_two();
  const auto keep = [&files](const std::string& name) {
    REQUIRE(files->make_directory(kPath / name));
    REQUIRE(files->create(kPath / name / "thesis.txt"));
  };
  keep("00000000");
  SnapshotDirectory directory(files, kPath, 1);
  const auto report = directory.scan();
  REQUIRE(report.verified.size() == 2);
  CHECK(report.complaints.empty());
  keep("20261128");  // a day; and while the job trains
  REQUIRE(files->make_directory(kPath / "00000003"));
  const auto taken = write(directory, 3);
  REQUIRE_FALSE(taken);
  CHECK(files->list(kPath / "00000003")->empty());
  REQUIRE(write(directory, 4));
  REQUIRE(directory.prune());
  CHECK(names_in(*files) == Names{mark_name(2), "00000000", "00000003", "00000004", "20261128"});

  SnapshotDirectory next(files, kPath, 1);
  CHECK(next.scan().highest_number == 20261128);
  REQUIRE(ddp_test::write(next, 20261129, 3));
  REQUIRE(next.prune());
  CHECK(names_in(*files) == Names{mark_name(3), "00000000", "00000003", "20261128", "20261129"});
}

TEST_CASE("what has only some of a snapshot's files may be a user's: told, and never removed",
          "[snapshot]") {
  auto files = disk_with_two();
  REQUIRE(files->make_directory(kPath / "00000000"));
  REQUIRE(files->create(kPath / "00000000" / kManifestFile));
  SnapshotDirectory directory(files, kPath, 1);
  CHECK(directory.scan().complaints.size() == 1);
  REQUIRE(write(directory, 3));
  REQUIRE(directory.prune());
  CHECK(names_in(*files) == Names{mark_name(2), "00000000", "00000003"});
}

TEST_CASE("a user's link under a snapshot's name stays, whatever it leads to", "[snapshot]") {
  const ddprun::test::TempDir dir;
  const auto path = dir.path() / "snapshot.ddp";
  SnapshotDirectory elsewhere(real_files(), dir.path() / "archive", 1);
  REQUIRE(write(elsewhere, 1));
  std::filesystem::create_directory(path);
  std::filesystem::create_symlink(dir.path() / "archive" / "00000001", path / "00000001");
  SnapshotDirectory directory(real_files(), path, 1);
  CHECK(scan(real_files(), path).numbers == Numbers{1});  // it may be trained on from
  REQUIRE(write(directory, 2));
  REQUIRE(directory.prune());
  CHECK(std::filesystem::is_symlink(path / "00000001"));
}

TEST_CASE("a damaged snapshot does not count as one of those that are kept", "[snapshot]") {
  auto files = disk_with_two();
  files->bytes(kPath / "00000002" / kStateFile)[0] ^= std::byte{1};
  SnapshotDirectory directory(files, kPath, 2);
  REQUIRE(directory.scan().verified.size() == 1);
  REQUIRE(write(directory, 3));
  REQUIRE(directory.prune());
  CHECK(names_in(*files) == Names{mark_name(2), "00000001", "00000003"});
}

TEST_CASE("a snapshot that may be good and cannot be read is no damaged one, and stays",
          "[snapshot]") {
  const auto [reason, fault, why] =
      GENERATE(table<int, Fault, std::string>({{EIO, Fault::unreadable, "Input/output error"},
                                               {ESTALE, Fault::unreadable, "Stale file handle"},
                                               {EMFILE, Fault::unreadable, "Too many open files"},
                                               {EACCES, Fault::forbidden, "Permission denied"}}));
  const auto* const name = GENERATE(kStateFile, kTensorsFile, kManifestFile);
  auto files = disk_with_two();
  files->withhold(kPath / "00000002" / name, reason);
  SnapshotDirectory directory(files, kPath, 2);
  const auto report = directory.scan();
  CHECK(report.verified.size() == 1);
  REQUIRE(report.withheld.size() == 1);
  const auto file = (kPath / "00000002" / name).string();
  CHECK(report.withheld[0] == Withheld{0, 2, fault, file + ": cannot be read: " + why});
  CHECK(report.complaints == Names{file + ": snapshot passed over: cannot be read: " + why});
  REQUIRE(write(directory, 3));
  REQUIRE(directory.prune());
  CHECK(names_in(*files) == Names{mark_name(2), "00000002", "00000003"});
}

TEST_CASE("a snapshot of a later version of ddprun stays, too", "[snapshot]") {
  auto files = disk_with_two();
  for (const char* const number : {"00000001", "00000002"}) {
    auto& bytes = files->bytes(kPath / number / kManifestFile);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    bytes[text.find("\"version\": 1") + 11] = std::byte{'2'};
  }
  SnapshotDirectory directory(files, kPath, 2);
  const auto report = directory.scan();
  REQUIRE(report.withheld.size() == 2);
  CHECK(report.withheld[0].fault == Fault::newer);
  CHECK(report.withheld[0].number == 2);
  CHECK(report.withheld[0].attempt == 1);
  REQUIRE(directory.claim(2));
  REQUIRE(directory.prune());
  CHECK(names_in(*files) == Names{mark_name(2), "00000001", "00000002"});
}

TEST_CASE("a snapshot with any bit flipped is passed over, naming file and reason", "[snapshot]") {
  auto files = disk_with_two();
  for (const auto* name : {kStateFile, kTensorsFile, kManifestFile}) {
    auto& bytes = files->bytes(kPath / "00000002" / name);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] ^= std::byte{0x10};
      const auto found = scan(files);
      INFO(name << " byte " << i);
      REQUIRE(found.numbers == Numbers{1});
      REQUIRE(found.report.complaints.size() == 1);
      CHECK_THAT(found.report.complaints[0],
                 Contains("/jobs/snapshot.ddp/00000002/" + std::string(name) +
                          ": damaged snapshot passed over: "));
      CHECK(found.report.highest_number == 2);
      bytes[i] ^= std::byte{0x10};
    }
  }
  CHECK(scan(files).numbers == Numbers{2, 1});
}

TEST_CASE("a snapshot cut short anywhere, or grown, is passed over", "[snapshot]") {
  auto files = disk_with_two();
  for (const auto* name : {kStateFile, kTensorsFile, kManifestFile}) {
    auto& bytes = files->bytes(kPath / "00000002" / name);
    const auto whole = bytes;
    for (std::size_t length = 0; length < whole.size(); ++length) {
      bytes.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
      INFO(name << " of " << length);
      REQUIRE(scan(files).numbers == Numbers{1});
    }
    bytes = whole;
    bytes.push_back(std::byte{0});
    CHECK(scan(files).numbers == Numbers{1});
    bytes = whole;
  }
}

TEST_CASE("a snapshot that lacks a file is passed over, naming it", "[snapshot]") {
  for (const auto* name : {kStateFile, kTensorsFile, kManifestFile}) {
    auto files = disk_with_two();
    REQUIRE(files->remove_all(kPath / "00000002" / name));
    const auto found = scan(files);
    CHECK(found.numbers == Numbers{1});
    CHECK_THAT(found.report.complaints.at(0),
               Contains(std::string(name) + ": damaged") && Contains("No such file"));
  }
}

TEST_CASE("a snapshot under another's number is passed over", "[snapshot]") {
  auto files = disk_with_two();
  REQUIRE(files->rename(kPath / "00000002", kPath / "00000005"));
  const auto found = scan(files);
  CHECK(found.numbers == Numbers{1});
  CHECK_THAT(found.report.complaints.at(0), Contains("belongs to another snapshot"));
}

TEST_CASE("a snapshot that changed since it was verified is not taken", "[snapshot]") {
  auto files = disk_with_two();
  SnapshotDirectory directory(files, kPath, 2);
  const auto older = directory.scan().verified.at(1);
  files->bytes(kPath / "00000001" / kTensorsFile).back() ^= std::byte{1};
  CHECK_FALSE(directory.take(older));
}

TEST_CASE("whichever call fails, the snapshots that were there stay and no half one is seen",
          "[snapshot]") {
  for (std::size_t call = 0;; ++call) {
    auto files = disk_with_two();
    SnapshotDirectory directory(files, kPath, 2);
    const auto before = files->calls();
    files->fail_call(call);
    const auto written = write(directory, 3);
    const auto pruned = written ? directory.prune() : Result<void>();
    const bool reached = files->calls() - before > call;
    files->heal();
    const bool tidy = files->list(kPath / mark_name(2))->empty() && names_in(*files).size() == 3;
    INFO("call " << call << (written ? " written" : ": " + written.error().sentence()));
    const auto found = scan(files);
    CHECK(found.report.complaints.empty());
    REQUIRE(found.numbers.size() >= 2);
    CHECK(found.numbers[0] >= (written ? 3 : 2));
    CHECK((written || !written.error().where.empty()));
    // The next save mends what this one left.
    REQUIRE(write(directory, 4));
    REQUIRE(directory.prune());
    CHECK(scan(files).numbers[0] == 4);
    CHECK(names_in(*files).size() == 3);  // and the mark
    CHECK(files->list(kPath / mark_name(2))->empty());
    if (!reached) {
      CHECK(written);
      CHECK(pruned);
      CHECK(call > 15);  // the loop has gone through the whole of a save
      break;
    }
    CHECK((!written || !pruned || tidy));  // told, or mended by itself
  }
}

TEST_CASE("whenever the machine dies in a save, a whole snapshot is there afterwards",
          "[snapshot]") {
  for (std::size_t call = 0;; ++call) {
    auto files = disk_with_two();
    SnapshotDirectory directory(files, kPath, 2);
    const auto before = files->calls();
    files->die_at_call(call);
    const auto written = write(directory, 3);
    if (written) {
      static_cast<void>(directory.prune());
    }
    const bool reached = files->calls() - before > call;
    files->crash();
    INFO("call " << call);
    const auto found = scan(files);
    CHECK(found.report.complaints.empty());
    REQUIRE(!found.numbers.empty());
    CHECK(found.numbers[0] >= (written ? 3 : 2));
    if (!reached) {
      break;
    }
  }
}

TEST_CASE("the very first snapshot survives a crash with its directory's name", "[snapshot]") {
  auto files = std::make_shared<LossyFiles>();
  REQUIRE(files->make_directory("/jobs"));
  REQUIRE(files->sync_directory("/"));
  SnapshotDirectory directory(files, kPath, 2);
  REQUIRE(write(directory, 1));
  files->crash();
  CHECK(scan(files).numbers == Numbers{1});
}

TEST_CASE("a worker killed in a save leaves nothing that is taken for a snapshot", "[snapshot]") {
  for (std::size_t call = 0; call < 40; ++call) {
    auto files = disk_with_two();
    SnapshotDirectory directory(files, kPath, 2);
    files->die_at_call(call);
    static_cast<void>(write(directory, 3));
    files->heal();  // the machine lives on: nothing is lost, synced or not
    const auto found = scan(files);
    INFO("call " << call);
    CHECK(found.report.complaints.empty());
    CHECK(found.numbers.size() >= 2);
    CHECK(found.report.highest_number <= 3);
  }
}

TEST_CASE("on a disk that fills up the save fails, gives its space back and can be repeated",
          "[snapshot]") {
  for (std::size_t room = 0;; room += 7) {
    auto files = disk_with_two();
    SnapshotDirectory directory(files, kPath, 2);
    const auto used = files->used_bytes();
    files->set_capacity(used + room);
    const auto written = write(directory, 3);
    INFO("room " << room);
    if (written) {
      CHECK(room > 100);
      break;
    }
    CHECK_THAT(written.error().sentence(), Contains("No space left on device"));
    CHECK(files->used_bytes() == used);
    CHECK(scan(files).numbers == Numbers{2, 1});
    files->heal();
    REQUIRE(write(directory, 4));
    CHECK(scan(files).numbers == Numbers{4, 2, 1});
  }
}

TEST_CASE("a call that fails while looking for snapshots is told and loses none", "[snapshot]") {
  for (std::size_t call = 0; call < 7; ++call) {
    auto files = disk_with_two();
    files->fail_call(call);
    SnapshotDirectory directory(files, kPath, 2);
    const auto report = directory.scan();
    INFO("call " << call);
    CHECK((!report.complaints.empty() || !report.problem.empty()));
    files->heal();
    CHECK(scan(files).numbers == Numbers{2, 1});
  }
}

TEST_CASE("a file in the place of the directory is a problem that names it", "[snapshot]") {
  auto files = std::make_shared<LossyFiles>();
  REQUIRE(files->make_directory("/jobs"));
  REQUIRE(files->create(kPath));
  CHECK_THAT(scan(files).report.problem, Contains("/jobs/snapshot.ddp: cannot be read as a"));
  SnapshotDirectory directory(files, kPath, 2);
  CHECK_FALSE(write(directory, 1));
}

TEST_CASE("a look finds what a scan finds, before a mark is made", "[snapshot]") {
  auto files = disk_with_two();
  SnapshotDirectory directory(files, kPath, 2);
  const auto looked = directory.look();
  CHECK(looked.verified.size() == 2);
  CHECK(looked.marked == 1);
  const auto* const name = GENERATE(kStateFile, kTensorsFile, kManifestFile);
  files->withhold(kPath / "00000002" / name, EACCES);
  CHECK(directory.look().withheld == directory.scan().withheld);
  CHECK(directory.look().verified.size() == 1);
  CHECK(names_in(*files) == Names{mark_name(1), "00000001", "00000002"});
}

TEST_CASE("one old snapshot that cannot be moved keeps no other one", "[snapshot]") {
  auto files = disk_with_two();
  files->close(kPath / "00000001");
  SnapshotDirectory directory(files, kPath, 1);
  for (std::uint64_t number = 3; number <= 5; ++number) {
    REQUIRE(write(directory, number));
    const auto pruned = directory.prune();
    REQUIRE_FALSE(pruned);
    CHECK(pruned.error().where == (kPath / "00000001").string());
  }
  CHECK(names_in(*files) == Names{mark_name(2), "00000001", "00000005"});
  CHECK(files->list(kPath / mark_name(2))->empty());
}

TEST_CASE("a path where this user can never save is told from a disk that fails", "[snapshot]") {
  const auto closed = GENERATE(false, true) ? kPath : kPath / mark_name(1);
  auto files = disk_with_two();
  SnapshotDirectory directory(files, kPath, 2);
  files->fail_call(2);
  REQUIRE_FALSE(directory.claim(2));
  CHECK_FALSE(directory.closed());
  files->heal();
  files->close(closed);
  REQUIRE_FALSE(directory.claim(2));
  // A mark would end a training of who may save here.
  CHECK(names_in(*files) == Names{mark_name(1), "00000001", "00000002"});
  const auto why = directory.closed();
  REQUIRE(why);
  CHECK(why->sentence() == closed.string() + ": cannot be written to: Permission denied; " +
                               (closed == kPath
                                    ? "let the user who trains write there"
                                    : "remove it once nothing of that user trains here") +
                               ", or choose another snapshot path");
}

TEST_CASE("the machine's own files behave as the simulated ones", "[snapshot]") {
  const ddprun::test::TempDir dir;
  const auto top = dir.path() / "top";
  const auto files = real_files();
  const auto path = top / "deep" / "snapshot.ddp";
  SnapshotDirectory directory(files, path, 2);
  CHECK(scan(files, path).numbers.empty());
  for (std::uint64_t number = 1; number <= 4; ++number) {
    REQUIRE(write(directory, number));
    REQUIRE(directory.prune());
  }
  CHECK(scan(files, path).numbers == Numbers{4, 3});
  CHECK_FALSE(*files->make_directory(path));
  CHECK_FALSE(files->make_directory(top / "none" / "below"));
  CHECK_FALSE(files->rename(path / "00000003", path / "00000004"));
  REQUIRE(files->make_directory(path / "00000005"));
  CHECK(files->rename(path / "00000003", path / "00000005").error().sentence() ==
        (path / "00000005").string() + ": is in the way of a snapshot; move it away");
  REQUIRE(files->remove_all(path / "00000005"));
  CHECK(files->remove_all(path / "00000009"));
  CHECK_FALSE(files->read(path, 100));
  CHECK_FALSE(files->read(path / "00000003" / kStateFile, 3));
  const auto no_directory = path / "00000003" / kStateFile;
  CHECK_THAT(files->list(no_directory).error().error.sentence(), Contains("Not a directory"));
  for (const auto& at : {no_directory, no_directory / "below"}) {
    const auto refused = files->refuses_writes(at);
    REQUIRE(refused);
    CHECK(refused->error.sentence() == no_directory.string() + ": is not a directory");
  }
  std::filesystem::create_symlink("none", top / "link");
  CHECK_THAT(files->refuses_writes(top / "link" / "below")->error.sentence(),
             Contains("link: is a link to what is not there"));
  CHECK(files->refuses_writes(top / std::string(300, 'x')));
  CHECK_FALSE(files->sync_directory(top / "none"));
  CHECK_FALSE(files->refuses_writes(top / "none" / "below"));
  {
    // No mode stops root.
    const bool is_root = ::geteuid() == 0;
    REQUIRE(::chmod(top.c_str(), 0555) == 0);
    REQUIRE((!is_root || ::seteuid(65534) == 0));
    const auto refused = files->refuses_writes(top / "none" / "below");
    REQUIRE((!is_root || ::seteuid(0) == 0));
    REQUIRE(::chmod(top.c_str(), 0755) == 0);
    REQUIRE(refused);
    CHECK_THAT(refused->error.what, Contains("Permission denied"));
    CHECK(refused->fault == Fault::forbidden);
  }
  CHECK(files->remove_all(top));
  CHECK(files->list(top)->empty());
}

}  // namespace ddp
