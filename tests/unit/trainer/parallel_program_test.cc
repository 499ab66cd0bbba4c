// What `train gpt2` and `train resnet` can be told about ranks and snapshots, on real ranks of the
// built program.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/control_group.h"
#include "tests/support/free_port.h"
#include "tests/support/needs.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/trainer/resnet/striped_images.h"
#include "trainer/layers/bf16_product.h"

namespace ddp {
namespace {

using Catch::Matchers::Contains;
using ddprun::test::TempDir;

const std::string kTrain = ddprun::test::find_program("train");

/// A folder with a text of 7,000 letters and with 67 images, and the two models that learn them.
struct Place {
  Place() {
    std::string text;
    for (int line = 0; line < 200; ++line) {
      text += "line " + std::to_string(line * line % 97) + " of a text that repeats itself\n";
    }
    dir.write("text.txt", text);
    dir.write("data/data_batch_1.bin", striped_images(67, 1));
    dir.write("data/test_batch.bin", striped_images(30, 3));
  }

  /// stdout and stderr of all ranks together; the status of each is checked.
  [[nodiscard]] std::string ranks(int count, const std::string& arguments, int status = 0) const {
    return ranks_to(count, arguments, "cat <&3; ", status);
  }
  /// All are killed as soon as rank 0 has printed a line with `text`.
  void killed(int count, const std::string& arguments, const std::string& text) const {
    (void)ranks_to(count, arguments,
                   "while read -r line <&3; do [[ $line == *'" + text +
                       "'* ]] && kill -9 $pids && break; done; ",
                   137);
  }

  TempDir dir;
  /// Where the ranks but the first write their number before they begin; empty: nowhere.
  std::string members_file;

 private:
  /// `then`: what a shell does with rank 0's output, on descriptor 3.
  [[nodiscard]] std::string ranks_to(int count, const std::string& arguments,
                                     const std::string& then, int status) const {
    std::string script = "exec 2>&1; pids=; export WORLD_SIZE=" + std::to_string(count) +
                         " LOCAL_WORLD_SIZE=" + std::to_string(count) +
                         " MASTER_PORT=" + std::to_string(ddprun::test::free_port()) + "\n";
    script.append("exec 3< <(RANK=0 LOCAL_RANK=0 exec ").append(kTrain).append(" ");
    script.append(arguments).append("); pids=$!\n");
    for (int rank = 1; rank < count; ++rank) {
      const auto number = std::to_string(rank);
      script += members_file.empty() ? "(" : "(echo $BASHPID > " + members_file + "; ";
      script.append("RANK=").append(number).append(" LOCAL_RANK=").append(number).append(" exec ");
      script.append(kTrain).append(" ").append(arguments).append(") & pids+=\" $!\"\n");
    }
    script += then + "for pid in $pids; do wait $pid; echo \"ended with $?\"; done";
    const auto finished = ddprun::test::run({.argv = {"bash", "-c", script},
                                             .environment = {{"MASTER_ADDR", "127.0.0.1"},
                                                             {"TORCHELASTIC_ERROR_FILE", ""},
                                                             {"OMP_NUM_THREADS", "1"}},
                                             .directory = dir.path().string()},
                                            std::chrono::minutes(2));
    INFO(finished.out);
    CHECK(ddprun::test::count_of(finished.out, "ended with " + std::to_string(status)) == count);
    return finished.out;
  }
};

/// Short samples and steps of two micro-steps; --ckpt-freq 4 saves in the middle of an epoch.
const std::string kGpt2 =
    "gpt2 --data text.txt --seq-length 16 --batch-size 4 --accumulation 2 --max-steps 16 "
    "--warmup-steps 5 --ckpt-freq 4 --log-freq 1 ";
/// 67 images: on two ranks three steps of 20, and one of 7.
const std::string kResnet =
    "resnet --data data --stem large --batch-size 10 --epochs 1 --lr 0.02 --ckpt-freq 3 "
    "--log-freq 1 ";

int snapshots_in(const std::filesystem::path& directory) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    count += entry.path().filename().string().starts_with('.') ? 0 : 1;
  }
  return count;
}

/// The number behind `label`.
double number_after(const std::string& output, const std::string& label) {
  const auto at = output.find(label);
  INFO(output);
  REQUIRE(at != std::string::npos);
  return std::stod(output.substr(at + label.size()));
}

/// "weights <16 digits>": equal only when every bit of them is.
std::string weights_of(const std::string& output) {
  const auto at = output.find(", weights ");
  INFO(output);
  REQUIRE(at != std::string::npos);
  return output.substr(at, 26);
}

}  // namespace

TEST_CASE("as many snapshots stay as --keep says", "[parallel]") {
  const Place place;
  (void)place.ranks(2, kGpt2 + "--keep 3");
  CHECK(snapshots_in(place.dir.path() / "outputs" / "gpt2") == 3);
  (void)place.ranks(2, kResnet + "--keep 1");
  CHECK(snapshots_in(place.dir.path() / "snapshot.ddp") == 1);
  for (const auto* model : {"gpt2 --data text.txt ", "resnet --data data "}) {
    CHECK_THAT(place.ranks(1, std::string(model) + "--keep 0", 2), Contains("--keep"));
  }
}

TEST_CASE("a training whose gradients travel as bf16 loses little by it", "[parallel][long]") {
  const Place place;
  const auto exact = place.ranks(2, kGpt2 + "-e exact");
  const auto rounded = place.ranks(2, kGpt2 + "-e rounded --grad-compression bf16");
  const std::string loss = "Validation loss: ";
  CHECK(number_after(rounded, loss) == Approx(number_after(exact, loss)).epsilon(0.01));
  CHECK(weights_of(rounded) != weights_of(exact));
  const auto image_loss = [&](const std::string& options) {
    return number_after(place.ranks(2, kResnet + options), "Training finished: 1 epochs, loss ");
  };
  CHECK(image_loss("--snapshot-path rounded --grad-compression bf16") ==
        Approx(image_loss("--snapshot-path exact")).epsilon(0.05));
  for (const auto* model : {"gpt2 --data text.txt ", "resnet --data data "}) {
    CHECK_THAT(place.ranks(1, std::string(model) + "--grad-compression f8", 2),
               Contains("--grad-compression: must be none or bf16, not 'f8'"));
  }
}

TEST_CASE("a training with products in bf16 loses little by it, and goes on with the same bits",
          "[parallel]") {
  const Place place;
  CHECK_THAT(place.ranks(1, kGpt2 + "--precision f16", 2),
             Contains("--precision: must be f32 or bf16, not 'f16'"));
  if (!has_bf16_products()) {
    CHECK_THAT(place.ranks(1, kGpt2 + "--precision bf16", 1),
               Contains("this processor has no instructions for bf16"));
    SKIP_TEST("bf16", "this processor has no instructions for bf16 (avx512_bf16)");
  }
  const auto exact = place.ranks(2, kGpt2 + "-e exact");
  const auto rounded = place.ranks(2, kGpt2 + "-e rounded --precision bf16");
  const std::string loss = "Validation loss: ";
  CHECK(number_after(rounded, loss) == Approx(number_after(exact, loss)).epsilon(0.01));
  CHECK(weights_of(rounded) != weights_of(exact));
  place.killed(2, kGpt2 + "-e killed --precision bf16", "step 10/16");
  CHECK(weights_of(place.ranks(2, kGpt2 + "-e killed --precision bf16")) == weights_of(rounded));
}

TEST_CASE("with --zero each rank keeps half of the optimizer, and the weights have the same bits",
          "[parallel]") {
  const Place place;
  const auto plain = place.ranks(2, kGpt2 + "-e plain");
  const auto zero = place.ranks(2, kGpt2 + "-e zero --zero");
  CHECK(weights_of(zero) == weights_of(plain));
  const std::string label = "optimizer_mb ";
  CHECK(number_after(zero, label) == Approx(number_after(plain, label) / 2).epsilon(0.05));

  place.killed(2, kGpt2 + "-e killed --zero", "step 10/16");
  // The whole state is in the snapshot: a world of another size, or without --zero, goes on too.
  std::filesystem::copy(place.dir.path() / "outputs" / "killed",
                        place.dir.path() / "outputs" / "other",
                        std::filesystem::copy_options::recursive);
  const auto resumed = place.ranks(2, kGpt2 + "-e killed --zero");
  CHECK_THAT(resumed, Contains("Resuming training from snapshot"));
  CHECK(weights_of(resumed) == weights_of(plain));
  const auto other = place.ranks(3, kGpt2 + "-e other --zero");
  CHECK_THAT(other, Contains("Resuming training from snapshot") && Contains("Training finished"));
}

#ifndef DDPRUN_SANITIZED
TEST_CASE("a process with --zero is smaller by the optimizer's state that it lacks", "[parallel]") {
  const Place place;
  // Of the rank that writes no snapshots, after one: what that needed is gone again.
  const auto memory_mb = [&](const std::string& options) {
    (void)place.ranks(2,
                      "gpt2 --data text.txt --model 10m --seq-length 16 --batch-size 1 "
                      "--max-steps 3 --ckpt-freq 2 --metrics " +
                          options);
    const auto lines =
        ddprun::test::read_file(place.dir.path() / options.substr(0, 5) / "rank-1.jsonl");
    const auto newest = lines.rfind("\"memory_bytes\"");
    REQUIRE(newest != std::string::npos);
    return number_after(lines.substr(newest), "\"memory_bytes\":") / 1e6;
  };
  const double plain = memory_mb("plain -e plain");
  const double zero = memory_mb("split -e split --zero");
  // 10.8 million parameters: 87 MB of moments, or 43.
  CHECK(plain - zero > 35);
}
#endif

TEST_CASE("a resnet's momentum is split by --zero and whole in its snapshots", "[parallel][long]") {
  const Place place;
  const auto plain = place.ranks(2, kResnet + "--snapshot-path plain");
  place.killed(2, kResnet + "--snapshot-path killed --zero", "Step 3 | Training snapshot saved");
  const auto resumed = place.ranks(2, kResnet + "--snapshot-path killed");
  CHECK_THAT(resumed, Contains("samples of it are done"));
  CHECK(weights_of(resumed) == weights_of(plain));
}

TEST_CASE("ranks with unequal shares train on the same samples to the same loss", "[parallel]") {
  const Place place;
  const std::string loss = "Validation loss: ";
  const auto equal = place.ranks(2, kGpt2 + "-e equal");
  const auto shared = place.ranks(2, kGpt2 + "-e shared --balance 3,1");
  CHECK(number_after(shared, loss) == Approx(number_after(equal, loss)).epsilon(1e-4));
  CHECK(weights_of(shared) != weights_of(equal));  // sums are rounded in another order
  place.killed(2, kGpt2 + "-e killed --balance 3,1", "step 10/16");
  const auto resumed = place.ranks(2, kGpt2 + "-e killed --balance 3,1");
  CHECK_THAT(resumed, Contains("Resuming training from snapshot"));
  CHECK(weights_of(resumed) == weights_of(shared));
  CHECK_THAT(place.ranks(2, kResnet + "--balance 3,1"),
             Contains("[CPU0] Epoch 0 | Batchsize: 15 | Steps: 4") &&
                 Contains("[CPU1] Epoch 0 | Batchsize: 5 | Steps: 4"));
  CHECK_THAT(place.ranks(2, kGpt2 + "-e other --balance 1,2,3", 1),
             Contains("--balance has 3 weights for 2 ranks; give one for each rank"));
  for (const auto* wrong : {"0,1", "1,", "1,x", "fast", "''"}) {
    CHECK_THAT(place.ranks(1, kGpt2 + "--balance " + wrong, 2),
               Contains("--balance: must be auto, or a weight for each rank such as 3,1"));
  }
}

#ifndef DDPRUN_SANITIZED
TEST_CASE("a GPT-2 on two ranks learns more of a text than how often each byte comes",
          "[parallel]") {
  const Place place;
  const auto out = place.ranks(2, "gpt2 --data " DDPRUN_DOCS
                                  "/*.md --seq-length 32 --batch-size 8 --max-steps 120 "
                                  "--warmup-steps 20 --log-freq 40");
  // The entropy of single bytes is 3.25 nats there, and an untrained model has 5.5. Sound runs of
  // five seeds ended at 2.70 to 2.73, one with a tenth of the rate at 3.34.
  CHECK(number_after(out, "Validation loss: ") < 2.9);
}

TEST_CASE("with --balance auto a slow rank takes fewer samples, and the loss is the same",
          "[parallel]") {
  const auto group = ddprun::test::ControlGroup::processor(0.05);
  NEEDS_GROUP(group);
  Place place;
  const std::string loss = "Validation loss: ";
  const auto equal = place.ranks(2, kGpt2 + "-e equal");
  place.members_file = group.members_file();
  const auto shared = place.ranks(2, kGpt2 + "-e shared --balance auto");
  INFO(shared);
  const std::string label = "samples of a step by rank ";
  // 16 samples in all: 14 for the fast rank on an idle machine. On a busy one other programs may
  // slow it for a while, but not each time that the ranks agree.
  int most = 0;
  for (auto at = shared.find(label); at != std::string::npos; at = shared.find(label, at + 1)) {
    most = std::max(most, std::stoi(shared.substr(at + label.size())));
  }
  CHECK(most > 8);
  CHECK(number_after(shared, loss) == Approx(number_after(equal, loss)).epsilon(1e-4));
}
#endif

}  // namespace ddp
