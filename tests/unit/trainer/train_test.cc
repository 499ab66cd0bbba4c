// train as a user runs it: what it prints, how it resumes, what it says of bad input.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/control_group.h"
#include "tests/support/free_port.h"
#include "tests/support/needs.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/trainer/train_program.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddprun::test::free_port;
using ddprun::test::read_file;
using ddprun::test::TempDir;

/// "loss ..., weights ...": equal only when every bit of the weights is.
std::string result_of(const Outcome& outcome) {
  auto text = line_after(outcome.output, "Training finished: ");
  INFO(outcome.output);
  REQUIRE(text.find(", weights ") != std::string::npos);
  return text;
}

/// Each file below, by its path, with its bytes.
std::map<std::string, std::string> contents(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) {
      files[entry.path()] = read_file(entry.path());
    }
  }
  return files;
}

std::vector<fs::path> snapshots(const fs::path& directory) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (!entry.path().filename().string().starts_with(".attempt-")) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

void flip_last_byte(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(-1, std::ios::end);
  file.put(byte);
  REQUIRE(file.good());
}

bool has_mpirun() {
  return shell("/", "command -v mpirun").status == 0;
}

/// Two that begin at once on a machine may not make the same folder for their sessions: "File
/// exists", and one of them ends.
std::string mpirun(const fs::path& sessions) {
  return "OMPI_MCA_orte_tmpdir_base=" + sessions.string() +
         " mpirun --allow-run-as-root --oversubscribe ";
}

}  // namespace

TEST_CASE("train linear alone prints what the tutorials print", "[train]") {
  const TempDir dir;
  const auto outcome = train(dir.path(), "linear 3 2");
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  const std::string expected =
      "[CPU0] Epoch 0 | Batchsize: 32 | Steps: 64\n"
      "Epoch 0 | Training snapshot saved at snapshot.ddp\n"
      "[CPU0] Epoch 1 | Batchsize: 32 | Steps: 64\n"
      "[CPU0] Epoch 2 | Batchsize: 32 | Steps: 64\n"
      "Epoch 2 | Training snapshot saved at snapshot.ddp\n"
      "Training finished: 3 epochs, loss ";
  CHECK(outcome.output.substr(0, expected.size()) == expected);
  CHECK(std::count(outcome.output.begin(), outcome.output.end(), '\n') == 6);
  CHECK(snapshots(dir.path() / "snapshot.ddp").size() == 2);
}

TEST_CASE("as many snapshots are kept as --keep says", "[train]") {
  const TempDir dir;
  CHECK(train(dir.path(), "linear 6 1 --keep 4 --snapshot-path four").status == 0);
  CHECK(snapshots(dir.path() / "four").size() == 4);
  CHECK(train(dir.path(), "linear 8 1 --keep 1 --snapshot-path four").status == 0);
  REQUIRE(snapshots(dir.path() / "four").size() == 1);
  CHECK(snapshots(dir.path() / "four")[0].filename() == "00000008");
}

TEST_CASE("the loss of the toy falls towards a twelfth", "[train]") {
  const TempDir dir;
  const auto first = train(dir.path(), "linear 1 10 --snapshot-path a");
  const auto last = train(dir.path(), "linear 60 10 --snapshot-path b");
  const double before = std::stod(line_after(first.output, "Training finished: 1 epochs, loss "));
  const double after = std::stod(line_after(last.output, "Training finished: 60 epochs, loss "));
  CHECK(after < before);
  CHECK(after == Approx(1.0 / 12).epsilon(0.1));  // the variance of a uniform target
}

TEST_CASE("a run that was stopped and resumed ends with the very same weights", "[train]") {
  for (const auto* options : {"", "--momentum 0.9 --batch-size 7"}) {
    const TempDir dir;
    const auto with = std::string(" --seed 3 ") + options;
    const auto straight = train(dir.path(), "linear 10 2 --snapshot-path straight " + with);
    const auto first = train(dir.path(), "linear 5 2 " + with);
    REQUIRE(first.status == 0);
    const auto second = train(dir.path(), "linear 10 2 " + with);
    CHECK_THAT(second.output,
               Contains("Loading snapshot\nResuming training from snapshot at Epoch 5\n"
                        "[CPU0] Epoch 5 |"));
    CHECK(result_of(second) == result_of(straight));
    CHECK(result_of(second) != result_of(first));
    const auto again = train(dir.path(), "linear 9 2 " + with);
    CHECK_THAT(again.output, Contains("Resuming training from snapshot at Epoch 9\n"));
  }
}

TEST_CASE("a run that is killed at any line goes on to the very same weights", "[train]") {
  const TempDir dir;
  const std::string arguments = "linear 30 2 --batch-size 1 --snapshot-path ";
  const auto undisturbed = result_of(train(dir.path(), arguments + "undisturbed"));
  int killed = 0;
  for (int lines = 1; lines <= 10; ++lines) {
    const auto path = std::to_string(lines);
    // Bash reads so many lines, kills, and then reads to the end: when it returns, it is dead.
    const auto outcome =
        shell(dir.path(), "exec 3< <(exec " + kTrain + " " + arguments + path +
                              "); pid=$!; for ((i = 0; i < " + path +
                              "; ++i)); do read -r -u 3 line; done; kill -9 $pid; cat <&3");
    killed += outcome.output.find("Training finished") == std::string::npos ? 1 : 0;
    INFO("killed after line " << lines);
    CHECK(result_of(train(dir.path(), arguments + path)) == undisturbed);
  }
  CHECK(killed > 0);
}

TEST_CASE("a damaged snapshot is passed over for the one before, and it is said", "[train]") {
  const TempDir dir;
  const auto straight = train(dir.path(), "linear 10 2 --snapshot-path straight");
  REQUIRE(train(dir.path(), "linear 5 2").status == 0);
  const auto newest = snapshots(dir.path() / "snapshot.ddp").back();
  flip_last_byte(newest / "tensors.safetensors");
  const auto resumed = train(dir.path(), "linear 10 2");
  CHECK_THAT(resumed.output,
             Contains(newest.string() + "/tensors.safetensors: damaged snapshot passed over: its "
                                        "checksum does not match; snapshot 00000002 is used\n"));
  CHECK_THAT(resumed.output, Contains("at Epoch 3\n"));
  CHECK(result_of(resumed) == result_of(straight));
  CHECK_FALSE(fs::exists(newest));
}

TEST_CASE("the snapshots of a later version are not trained over", "[train]") {
  const TempDir dir;
  REQUIRE(train(dir.path(), "linear 4 2").status == 0);
  const auto before = snapshots(dir.path() / "snapshot.ddp");
  for (const auto& snapshot : before) {
    REQUIRE(shell(snapshot, "sed -i 's/\"version\": 1/\"version\": 2/' manifest.json").status == 0);
  }
  const auto refused = train(dir.path(), "linear 8 2");
  CHECK(refused.status == 1);
  CHECK_THAT(
      refused.output,
      Contains(before.back().string() +
               "/manifest.json: a later version of ddprun wrote this snapshot (format version "
               "2, and this one reads 1); train with that version, or move the snapshot away"));
  CHECK(snapshots(dir.path() / "snapshot.ddp") == before);
}

TEST_CASE("when all snapshots are damaged training starts afresh, and it is said", "[train]") {
  const TempDir dir;
  const auto straight = train(dir.path(), "linear 4 2");
  for (const auto& snapshot : snapshots(dir.path() / "snapshot.ddp")) {
    fs::resize_file(snapshot / "manifest.json", 20);
  }
  const auto afresh = train(dir.path(), "linear 4 2");
  CHECK_THAT(afresh.output, Contains("there is no other, training starts afresh\n"));
  CHECK(result_of(afresh) == result_of(straight));
  // Their numbers are not used again: 00000001 and 00000002 are gone, 3 and 4 are good.
  const auto left = snapshots(dir.path() / "snapshot.ddp");
  REQUIRE(left.size() == 2);
  CHECK(left[0].filename() == "00000003");
}

TEST_CASE("a half-written snapshot of a killed run is no snapshot", "[train]") {
  const TempDir dir;
  REQUIRE(train(dir.path(), "linear 3 2").status == 0);
  const auto path = dir.path() / "snapshot.ddp";
  fs::create_directory(path / ".attempt-00000001" / "00000003");
  fs::copy(path / "00000002" / "state.json", path / ".attempt-00000001" / "00000003");
  const auto resumed = train(dir.path(), "linear 5 2");
  CHECK(
      resumed.output.starts_with("Loading snapshot\nResuming training from snapshot at Epoch 3\n"));
  CHECK_FALSE(fs::exists(path / ".attempt-00000001"));
  CHECK(fs::is_empty(path / ".attempt-00000002"));
  CHECK(snapshots(path).back().filename() == "00000003");
}

TEST_CASE("a snapshot of another model is refused and left as it is", "[train]") {
  const TempDir dir;
  const auto data = dir.write("d.csv", "x,y\n1,2\n2,4\n3,5\n4,9\n");
  REQUIRE(train(dir.path(), "linear 3 2").status == 0);
  const auto before = contents(dir.path() / "snapshot.ddp");
  const auto refused = train(dir.path(), "linear 3 2 --target y --data " + data);
  INFO(refused.output);
  CHECK(refused.status == 1);
  CHECK_THAT(refused.output,
             Contains("snapshot.ddp/00000002: snapshot of another model: it holds 'linear toy', "
                      "this is 'linear csv:y'; choose another snapshot path, or move this one"));
  const auto other_seed = train(dir.path(), "linear 3 2 --seed 9");
  CHECK(other_seed.status == 1);
  CHECK_THAT(other_seed.output, Contains("another --seed than 9"));
  CHECK(contents(dir.path() / "snapshot.ddp") == before);
}

TEST_CASE("a snapshot of a run with other data is refused and left as it is", "[train]") {
  const TempDir dir;
  const std::string rows = "x,y\n1,2\n2,4\n3,5\n";
  const std::string command = "linear 3 2 --target y --data " + dir.write("d.csv", rows + "4,9\n");
  const auto first = train(dir.path(), command);
  REQUIRE(first.status == 0);
  const auto before = contents(dir.path() / "snapshot.ddp");
  dir.write("d.csv", rows + "4,8\n");
  const auto refused = train(dir.path(), command);
  INFO(refused.output);
  CHECK(refused.status == 1);
  CHECK_THAT(refused.output, Contains("snapshot.ddp: snapshot of a run with other --data than ") &&
                                 Contains("d.csv holds now; give that run's file, or another "
                                          "--snapshot-path\n"));
  CHECK(contents(dir.path() / "snapshot.ddp") == before);
  // The very same rows under another name are the same data.
  const auto again =
      train(dir.path(), "linear 3 2 --target y --data " + dir.write("copy.csv", rows + "4,9\n"));
  CHECK(again.status == 0);
  CHECK(result_of(again) == result_of(first));
}

TEST_CASE("training goes on when a snapshot cannot be saved, and does not end well without one",
          "[train]") {
  const TempDir dir;
  const auto straight = train(dir.path(), "linear 4 2 --snapshot-path straight");
  // Through a pipe: the limit holds for the file of our own that stdout is, too.
  const auto limited = shell(
      dir.path(), "set -o pipefail; (ulimit -f 0; exec " + kTrain + " linear 4 2) 2>&1 | cat");
  INFO(limited.output);
  CHECK(limited.status == 1);
  CHECK_THAT(
      limited.output,
      Contains("snapshot.ddp: the last snapshot could not be saved (rank 0); there is no "
               "snapshot in snapshot.ddp; make room there, and give the same command again"));
  CHECK_THAT(limited.output, Contains("cannot write: File too large; snapshot 00000001 was not "
                                      "saved, training goes on\n"));
  CHECK_THAT(limited.output, !Contains("Training snapshot saved"));
  CHECK(result_of(limited) == result_of(straight));
  CHECK(snapshots(dir.path() / "snapshot.ddp").empty());
}

TEST_CASE("a disk that is full while saving loses no old snapshot, and the end is not a good one",
          "[train]") {
  const TempDir dir;
  const auto straight = train(dir.path(), "linear 6 2 --snapshot-path straight");
  const auto script = dir.write(
      "full.sh", "set -e\nmkdir -p disk && mount -t tmpfs -o size=64k tmpfs disk\n" + kTrain +
                     " linear 2 2 --snapshot-path disk/s\ndd if=/dev/zero of=disk/filler bs=4k "
                     "2>/dev/null || true\n" +
                     kTrain +
                     " linear 6 2 --snapshot-path disk/s || echo ended with $?\n"
                     "ls disk/s\n");
  const auto outcome = shell(dir.path(), "unshare -m true && unshare -m bash " + script);
  if (outcome.output.find("unshare") != std::string::npos ||
      outcome.output.find("mount:") != std::string::npos) {
    SKIP_TEST("mount", "no private mount can be made here: " + outcome.output);
  }
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.output, Contains("No space left on device; snapshot 00000002 was not saved, "
                                      "training goes on\n"));
  const auto second = outcome.output.substr(outcome.output.find("Loading snapshot"));
  CHECK(line_after(second, "Training finished: ") == result_of(straight));
  CHECK_THAT(outcome.output, Contains("disk/s: the last snapshot could not be saved (rank 0); the "
                                      "newest snapshot in disk/s is of epoch 1; make room there"));
  CHECK(outcome.output.ends_with("\nended with 1\n00000001\n"));
}

TEST_CASE("a place that cannot be written to ends a training before its first step", "[train]") {
  const TempDir dir;
  const auto script = dir.write(
      "read_only.sh",
      "set -e\nmkdir -p disk && mount -t tmpfs -o size=64k tmpfs disk\n" + kTrain +
          " linear 2 1 --snapshot-path disk/s\nmount -o remount,ro disk\n" + kTrain +
          " linear 2 1 --snapshot-path disk/s\necho a finished one ended with $?\n" + kTrain +
          " linear 9 1 --snapshot-path disk/s || echo a longer one ended with $?\n" + kTrain +
          " linear 9 1 --snapshot-path disk/new || echo a new one ended with $?\n");
  const auto outcome = shell(dir.path(), "unshare -m true && unshare -m bash " + script);
  if (outcome.output.find("unshare") != std::string::npos ||
      outcome.output.find("mount:") != std::string::npos) {
    SKIP_TEST("mount", "no private mount can be made here: " + outcome.output);
  }
  INFO(outcome.output);
  const std::string why =
      ": cannot be written to: Read-only file system; let the user who trains write there, or "
      "choose another snapshot path\n";
  CHECK_THAT(outcome.output, Contains("a finished one ended with 0\n"));
  CHECK_THAT(outcome.output, Contains("disk/s" + why + "a longer one ended with 1\n"));
  CHECK_THAT(outcome.output, Contains("/disk" + why + "a new one ended with 1\n"));
  CHECK_THAT(outcome.output, !Contains("Epoch 2 | Batchsize"));
}

TEST_CASE("a snapshot path that is a file is refused", "[train]") {
  const TempDir dir;
  dir.write("taken", "precious");
  const auto outcome = train(dir.path(), "linear 3 2 --snapshot-path taken");
  CHECK(outcome.status == 1);
  CHECK_THAT(
      outcome.output,
      Contains("taken: cannot be read as a directory: Not a directory; choose another snapshot "
               "path"));
  CHECK(contents(dir.path()).at(dir.path() / "taken") == "precious");
}

TEST_CASE("each mistake in the data is one sentence and status 1", "[train]") {
  const TempDir dir;
  const auto refusal = [&](const std::string& text) {
    const auto outcome =
        train(dir.path(), "linear 3 2 --target y --data " + dir.write("d.csv", text));
    INFO(outcome.output);
    CHECK(outcome.status == 1);
    return outcome.output;
  };
  CHECK_THAT(refusal("x,z\n1,2\n"), Contains("d.csv: has no column 'y'; its columns are x, z\n"));
  CHECK_THAT(refusal("x,y\n1,2\n3\n"), Contains("d.csv: line 3: 1 field, the header has 2\n"));
  CHECK_THAT(refusal("x,y\n"), Contains("d.csv: has a header line but no rows\n"));
  CHECK_THAT(refusal(""), Contains("d.csv: has no header line\n"));
  CHECK_THAT(refusal("x,y\n1,red\n2,blue\n"),
             Contains("d.csv: line 2: the target column 'y' must be numeric, but holds 'red'\n"));
  const auto outcome = train(dir.path(), "linear 3 2 --target y --data none.csv");
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.output, Contains("none.csv: cannot be read: No such file or directory\n"));
  CHECK_THAT(train(dir.path(), "linear 3 2 --target y --data /tmp").output,
             Contains("/tmp: cannot be read: Is a directory\n"));
  CHECK_THAT(train(dir.path(), "linear 3 2 --target y --data /dev/zero").output,
             Contains("/dev/zero: is not a regular file\n"));
}

TEST_CASE("a learning rate that is too large ends with a sentence, not with NaN", "[train]") {
  const TempDir dir;
  const auto outcome = train(dir.path(), "linear 50 1 --lr 100");
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.output, Contains("the loss is no longer finite in epoch") &&
                                 Contains("choose a smaller --lr"));
}

TEST_CASE("prices of a table with columns of texts are explained to nine tenths", "[train]") {
  const TempDir dir;
  const auto outcome =
      train(dir.path(), "linear 40 5 --target price --data '" DDPRUN_TEST_DATA_DIR "/houses.csv'");
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  CHECK_THAT(outcome.output, Contains("[CPU0] Epoch 0 | Batchsize: 32 | Steps: "));
  CHECK(std::stod(line_after(outcome.output, "R² on held-out tenth: ")) >= 0.90);
}

TEST_CASE("a training takes no more threads than the CPU quota of its control group allows",
          "[train]") {
  const auto group = ddprun::test::ControlGroup::processor(0.5);
  NEEDS_GROUP(group);
  const TempDir dir;
  dir.write("text.txt", std::string(500, 'x'));
  const std::string gpt2 = " gpt2 --data text.txt --seq-length 8 --batch-size 1 --max-steps 1 ";
  const auto threads = [&](const std::string& command) {
    const auto run = shell(dir.path(), command);
    INFO(run.output);
    CHECK(run.status == 0);
    return line_after(run.output, "Threads: ");
  };
  const std::string inside = "unset OMP_NUM_THREADS; echo $$ > " + group.members_file() + "; exec ";
  CHECK(threads(inside + kTrain + gpt2 + "-e alone") == "1 (a CPU quota of 0.5 processors)");
  const auto launched = ddprun::test::find_program("ddprun") + " --standalone --nproc-per-node 1 ";
  CHECK(threads(inside + launched + kTrain + gpt2 + "-e launched") ==
        "1 (a CPU quota of 0.5 processors)");
  CHECK(threads("export OMP_NUM_THREADS=1; exec " + kTrain + gpt2 + "-e told") ==
        "1 (OMP_NUM_THREADS)");
}

TEST_CASE("a number of threads that is none is refused", "[train]") {
  const TempDir dir;
  dir.write("d.txt", std::string(200, 'a'));
  for (const char* const threads : {"0", "-1", "many", "4097"}) {
    const auto run = shell(dir.path(), "OMP_NUM_THREADS=" + std::string(threads) + " exec " +
                                           kTrain + " gpt2 --data d.txt -s 8 -b 1 --max-steps 1");
    INFO(run.output);
    CHECK(run.status == 1);
    CHECK_THAT(run.output, Contains("OMP_NUM_THREADS is '" + std::string(threads) +
                                    "'; give it a number from 1 to 4096"));
  }
}

TEST_CASE("a standard stream that is closed gets nothing of a snapshot", "[train]") {
  const TempDir dir;
  dir.write("d.txt", std::string(200, 'a'));
  const auto run = shell(dir.path(), "exec 3>&1; (exec <&- >&- 2>&-; OMP_NUM_THREADS=1 " + kTrain +
                                         " gpt2 --data d.txt -s 8 -b 1 --max-steps 2 --metrics m); "
                                         "cat m/rank-0.jsonl >&3");
  INFO(run.output);
  REQUIRE_FALSE(run.output.empty());
  std::istringstream lines(run.output);
  for (std::string line; std::getline(lines, line);) {
    CHECK(line.starts_with('{'));
  }
}

TEST_CASE("message-passing alone says that nobody is there", "[train]") {
  const auto outcome = train("/", "message-passing");
  CHECK(outcome.status == 0);
  CHECK(outcome.output == "Rank 0 is alone: there is no other rank to send to\n");
}

TEST_CASE("message-passing under plain mpirun reaches every rank", "[train]") {
  if (!has_mpirun()) {
    SKIP_TEST("mpirun", "there is no mpirun on this machine");
  }
  const TempDir dir;
  const auto outcome = shell("/", mpirun(dir.path()) + "-np 3 " + kTrain + " message-passing");
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  for (const auto* line :
       {"Rank 0 sent data to Rank 1\n", "Rank 0 sent data to Rank 2\n",
        "Rank 1 has received data from rank 0\n", "Rank 2 has received data from rank 0\n"}) {
    CHECK_THAT(outcome.output, Contains(line));
  }
}

TEST_CASE("train linear under plain mpirun shares the work and resumes", "[train]") {
  if (!has_mpirun()) {
    SKIP_TEST("mpirun", "there is no mpirun on this machine");
  }
  const TempDir dir;
  const auto run = mpirun(dir.path()) + "-np 2 " + kTrain + " linear ";
  const auto straight = shell(dir.path(), run + "6 2 --snapshot-path straight");
  INFO(straight.output);
  REQUIRE(straight.status == 0);
  CHECK_THAT(straight.output, Contains("[CPU0] Epoch 5 | Batchsize: 32 | Steps: 32\n") &&
                                  Contains("[CPU1] Epoch 5 | Batchsize: 32 | Steps: 32\n"));
  REQUIRE(shell(dir.path(), run + "3 2").status == 0);
  const auto resumed = shell(dir.path(), run + "6 2");
  CHECK_THAT(resumed.output, Contains("at Epoch 3\n"));
  CHECK(result_of(resumed) == result_of(straight));
}

TEST_CASE("nodes with disks of their own each keep snapshots, and an empty one is sent them",
          "[train]") {
  const TempDir dir;
  const auto straight = two_nodes(dir.path(), "linear 6 2 --snapshot-path straight");
  INFO(straight.output);
  REQUIRE(straight.status == 0);
  REQUIRE(two_nodes(dir.path(), "linear 3 2").status == 0);
  CHECK(snapshots(dir.path() / "0/snapshot.ddp").size() == 2);
  CHECK(snapshots(dir.path() / "1/snapshot.ddp").size() == 2);
  fs::remove_all(dir.path() / "0/snapshot.ddp");  // rank 0 sits on a replacement node
  const auto resumed = two_nodes(dir.path(), "linear 6 2");
  CHECK_THAT(resumed.output, Contains("at Epoch 3\n"));
  CHECK(result_of(resumed) == result_of(straight));
  CHECK(snapshots(dir.path() / "0/snapshot.ddp").size() == 1);
}

TEST_CASE("a snapshot damaged on one node is passed over on both", "[train]") {
  const TempDir dir;
  const auto straight = two_nodes(dir.path(), "linear 6 2 --snapshot-path straight");
  REQUIRE(two_nodes(dir.path(), "linear 3 2").status == 0);
  flip_last_byte(snapshots(dir.path() / "1/snapshot.ddp").back() / "state.json");
  const auto resumed = two_nodes(dir.path(), "linear 6 2");
  INFO(resumed.output);
  CHECK_THAT(resumed.output, Contains("/1/snapshot.ddp/00000002/state.json: damaged snapshot") &&
                                 Contains("snapshot 00000001 is used") && Contains("at Epoch 1\n"));
  CHECK(result_of(resumed) == result_of(straight));
}

TEST_CASE("ranks with different data are told apart before they train", "[train]") {
  const TempDir dir;
  dir.write("0/d.csv", "x,y\n1,2\n2,4\n3,5\n");
  dir.write("1/d.csv", "x,y\n1,2\n2,4\n3,6\n");
  const auto outcome = two_nodes(dir.path(), "linear 3 2 --data d.csv --target y");
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.output, Contains("rank 1 read other data than rank 0"));
}

TEST_CASE("a rank whose peer is killed ends with a sentence, not with a signal", "[train]") {
  const TempDir dir;
  for (int lines = 1; lines <= 6; ++lines) {
    const auto start = [port = std::to_string(free_port())](const std::string& rank) {
      return "RANK=" + rank + " LOCAL_RANK=" + rank +
             " WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port +
             " exec " + kTrain + " linear 100000 100000";
    };
    const auto outcome =
        shell(dir.path(), "exec 3< <(" + start("1") + " 2>&1); peer=$!; (" + start("0") +
                              ") >zero 2>&1 & zero=$!; for ((i = 0; i < " + std::to_string(lines) +
                              "; ++i)); do read -r -u 3 line; done; kill -9 $peer; wait $zero; "
                              "status=$?; tail -n 3 zero; rm -rf snapshot.ddp; exit $status");
    INFO(outcome.output);
    CHECK(outcome.status == 1);
    CHECK_THAT(outcome.output, Contains("rank 1"));
  }
}

TEST_CASE("R squared of held-out targets that are all equal is said to be none", "[train]") {
  const TempDir dir;
  std::string rows = "x,y\n";
  for (int i = 0; i < 40; ++i) {
    rows += std::to_string(i % 7) + ",0.1\n";
  }
  dir.write("same.csv", rows);
  const auto outcome = train(dir.path(), "linear 2 2 --data same.csv --target y");
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  CHECK(line_after(outcome.output, "R² on held-out tenth: ") ==
        "undefined, since its targets are all equal");
}

TEST_CASE("a mark that no attempt can follow ends train with one sentence, a later one is no mark",
          "[train]") {
  const TempDir dir;
  fs::create_directories(dir.path() / "snapshot.ddp/.attempt-9223372036854775807");
  CHECK(train(dir.path(), "linear 1 1").status == 0);
  fs::create_directories(dir.path() / "snapshot.ddp/.attempt-9223372036854775806");
  const auto outcome = train(dir.path(), "linear 2 1");
  INFO(outcome.output);
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.output, Contains("no attempt can follow it; use another snapshot path"));
}

}  // namespace ddp
