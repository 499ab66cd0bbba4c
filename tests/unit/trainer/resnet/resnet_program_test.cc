// train resnet as a user runs it, on a small data set in CIFAR-10's real format: ten classes of
// coloured stripes. --stem large costs a fifteenth of the small one's arithmetic.
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/free_port.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/trainer/resnet/striped_images.h"

namespace ddp {
namespace {

using Catch::Matchers::Contains;
using ddprun::test::count_of;
using ddprun::test::read_file;
using ddprun::test::TempDir;

const std::string kTrain = ddprun::test::find_program("train");

struct Set {
  Set() {
    dir.write("data/data_batch_1.bin", striped_images(40, 1));
    dir.write("data/data_batch_2.bin", striped_images(27, 2));
    dir.write("data/test_batch.bin", striped_images(30, 3));
  }

  /// stdout and stderr; the status is checked.
  std::string shell(const std::string& command, int status = 0) const {
    const auto finished = ddprun::test::run({.argv = {"bash", "-c", "exec 2>&1; " + command},
                                             .environment = {{"RANK", ""},
                                                             {"WORLD_SIZE", ""},
                                                             {"TORCHELASTIC_ERROR_FILE", ""},
                                                             {"OMP_NUM_THREADS", "1"}},
                                             .directory = dir.path().string()},
                                            std::chrono::minutes(2));
    INFO(finished.out);
    CHECK(finished.exit_code == status);
    return finished.out;
  }

  [[nodiscard]] static std::string command(const std::string& arguments,
                                           const std::string& data = "data",
                                           const std::string& stem = "large") {
    return kTrain + " resnet --data " + data + " --stem " + stem + " --batch-size 10 " + arguments;
  }

  TempDir dir;
};

/// "loss ..., weights ...": equal only when every bit of the weights is.
std::string result_of(const std::string& output) {
  const auto at = output.find("Training finished: ");
  INFO(output);
  REQUIRE(at != std::string::npos);
  REQUIRE(output.find(", weights ", at) != std::string::npos);
  return output.substr(at);
}

}  // namespace

TEST_CASE("train resnet learns coloured stripes and says how well", "[resnet][long]") {
  const Set set;
  const auto output = set.shell(Set::command("--epochs 6 --lr 0.01 --log-freq 7"));
  INFO(output);
  CHECK_THAT(output, Contains("[CPU0] Epoch 0 | Batchsize: 10 | Steps: 7\nstep 7/42 | epoch 0 | "));
  CHECK_THAT(output, Contains("validation after step 7 | loss "));
  CHECK(count_of(output, "Training snapshot saved at snapshot.ddp") == 6);
  const auto at = output.find("test accuracy ");
  REQUIRE(at != std::string::npos);
  CHECK(std::stod(output.substr(at + 14)) > 30);  // by chance: 10
}

TEST_CASE("a resnet that is killed anywhere goes on to the very same weights", "[resnet][long]") {
  const Set set;
  const std::string options = "--epochs 2 --ckpt-freq 3 --log-freq 1 --snapshot-path ";
  const auto undisturbed = result_of(set.shell(Set::command(options + "undisturbed")));
  int killed_in_epoch = 0;
  for (const int lines : {1, 5, 13}) {
    const auto path = "killed" + std::to_string(lines);
    set.shell("exec 3< <(exec " + Set::command(options + path) + "); pid=$!; for ((i = 0; i < " +
              std::to_string(lines) + "; ++i)); do read -r -u 3 line; done; kill -9 $pid; cat <&3");
    const auto resumed = set.shell(Set::command(options + path));
    INFO("killed after line " << lines << "\n" << resumed);
    killed_in_epoch += count_of(resumed, " samples of it are done");
    CHECK(result_of(resumed) == undisturbed);
  }
  CHECK(killed_in_epoch > 0);
}

namespace {

/// Two ranks on this machine, with a snapshot directory between them.
struct TwoRanks {
  TwoRanks(const Set& set, const std::string& command) {
    const auto port = std::to_string(ddprun::test::free_port());
    for (const auto* number : {"0", "1"}) {
      ranks.push_back(std::make_unique<ddprun::test::ChildProcess>(ddprun::test::ChildRequest{
          .argv = {"bash", "-c", "exec " + command},
          .environment = {{"RANK", number},
                          {"WORLD_SIZE", "2"},
                          {"LOCAL_RANK", number},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", port},
                          {"TORCHELASTIC_ERROR_FILE", ""},
                          {"OMP_NUM_THREADS", "1"}},
          .directory = set.dir.path().string()}));
    }
  }

  /// What rank 0 printed, when both have ended with this status.
  std::string finish(int status = 0) {
    for (const auto& rank : ranks) {
      INFO(rank->report());
      CHECK(rank->exit_code(std::chrono::minutes(2)) == status);
    }
    return ranks[0]->out();
  }

  std::vector<std::unique_ptr<ddprun::test::ChildProcess>> ranks;
};

}  // namespace

TEST_CASE("a resnet on two ranks that leaves in an epoch resumes with the same weights",
          "[resnet][long]") {
  const Set set;
  const std::string options = "--epochs 2 --ckpt-freq 3 --log-freq 1 --snapshot-path ";
  const auto straight = TwoRanks(set, Set::command(options + "straight")).finish();
  // 67 images: three steps of 20, and one of 7: 4 for rank 0 and 3 for rank 1.
  CHECK_THAT(straight, Contains("[CPU0] Epoch 0 | Batchsize: 10 | Steps: 4\nstep 1/8 | "));
  TwoRanks ordered(set, Set::command(options + "left"));
  REQUIRE(ordered.ranks[0]->wait_for_out("step 1/8 | "));
  ordered.ranks[1]->signal(SIGTERM);  // one of them is told, both leave
  CHECK_THAT(ordered.finish(75), Contains(" | Leaving\n") && !Contains("Training finished"));
  const auto resumed = TwoRanks(set, Set::command(options + "left")).finish();
  INFO(resumed);
  CHECK_THAT(resumed, Contains("Resuming training from snapshot at Epoch "));
  CHECK(result_of(resumed) == result_of(straight));
}

TEST_CASE("ranks that are asked to leave give up a validation that takes long", "[resnet][long]") {
  const Set set;
  // 20 ms an image and more: minutes, of which three seconds are waited for.
  set.dir.write("large/data_batch_1.bin", striped_images(20, 1));
  set.dir.write("large/test_batch.bin", striped_images(12'000, 3));
  TwoRanks job(set, Set::command("--epochs 1 --log-freq 1", "large", "small"));
  REQUIRE(job.ranks[0]->wait_for_out("step 1/1 | "));
  for (const auto& rank : job.ranks) {
    rank->signal(SIGTERM);  // as an agent tells all of its ranks
  }
  const auto left = job.finish(75);
  CHECK_THAT(left, Contains("No validation: this job is to leave\n") &&
                       Contains("Training snapshot saved at snapshot.ddp\n") &&
                       !Contains("Training finished"));
}

TEST_CASE("a resnet's data and snapshots are checked, each in one sentence", "[resnet]") {
  const Set set;
  set.shell(Set::command("--epochs 1"));
  CHECK_THAT(set.shell(Set::command("--epochs 1 --seed 1"), 1),
             Contains("snapshot of a run with another --seed than 1; give that run's seed"));
  CHECK_THAT(set.shell(Set::command("--epochs 1 --model 50"), 1), Contains("resnet18 large stem"));
  set.dir.write("other/data_batch_1.bin", striped_images(40, 7));
  set.dir.write("other/test_batch.bin", striped_images(30, 3));
  CHECK_THAT(
      set.shell(Set::command("--epochs 2", "other"), 1),
      Contains("snapshot.ddp: snapshot of a run with other --data than other holds now; give "
               "that run's files"));
  CHECK_THAT(set.shell(kTrain + " resnet --data none", 1),
             Contains("none/data_batch_1.bin: cannot be read: No such file or directory"));
  for (const auto* mistake :
       {"--model 34", "--batch-size 0", "--lr 0", "--momentum 1", "--seed -1", "--stem none"}) {
    CHECK_THAT(set.shell(Set::command(mistake), 2),
               Contains(std::string(mistake).substr(0, std::string(mistake).find(' '))));
  }
}

TEST_CASE("a resnet that is no longer finite in an epoch keeps its last good snapshot",
          "[resnet]") {
  const Set set;
  const auto output = set.shell(Set::command("--epochs 3 --lr 1000000 --ckpt-freq 2"), 1);
  CHECK_THAT(output, Contains(" is no longer finite in step ") &&
                         Contains("; choose a smaller --lr; the newest snapshot in snapshot.ddp "
                                  "is of step 2\n"));
  CHECK(count_of(output, "Training snapshot saved") == 1);
  // That snapshot is whole: a training goes on from it, though its weights are spoilt by now.
  CHECK_THAT(set.shell(Set::command("--epochs 1"), 1), Contains("20 samples of it are done"));
}

TEST_CASE("a resnet writes its metrics and curves", "[resnet]") {
  const Set set;
  set.shell(Set::command("--epochs 1 --metrics m --tensorboard tb -e stripes"));
  const auto lines = read_file(set.dir.path() / "m" / "rank-0.jsonl");
  CHECK(count_of(lines, R"("event":"step")") == 7);
  CHECK(count_of(lines, R"("event":"validation")") == 1);
  CHECK(count_of(lines, R"("unit":"images")") == 1);
  CHECK_FALSE(std::filesystem::is_empty(set.dir.path() / "tb" / "stripes" / "rank-0"));
}

}  // namespace ddp
