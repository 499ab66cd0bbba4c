// train when a training cannot be kept: what it says, how it ends, and what stays on the disk.
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <limits>
#include <regex>
#include <span>
#include <string>
#include <vector>

#include "ddp/preemption.h"
#include "ddp/safetensors.h"
#include "ddp/snapshot.h"
#include "tests/support/event_wait.h"
#include "tests/support/leased_file.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/trainer/text/token_bin.h"
#include "tests/unit/trainer/train_program.h"

namespace ddp {
namespace {

using Catch::Matchers::Contains;
using ddprun::test::count_of;
using ddprun::test::TempDir;

/// 24,000 characters for a language model.
std::string write_text(const TempDir& dir) {
  std::string text;
  for (int i = 0; i < 4000; ++i) {
    text += i % 7 < 4 ? "ab cd " : "efghi\n";
  }
  return dir.write("text.txt", text);
}

/// Of a small GPT-2 that takes some milliseconds a step.
std::string gpt2(const std::string& text, const std::string& options) {
  return "gpt2 --seq-length 16 --batch-size 2 --log-freq 1 --data " + text + " " + options;
}

/// train with these words as the only rank, on one thread.
ddprun::test::ChildRequest alone(const TempDir& dir, const std::string& words) {
  return {.argv = {"bash", "-c", "exec " + kTrain + " " + words},
          .environment = {{"RANK", ""},
                          {"WORLD_SIZE", ""},
                          {"TORCHELASTIC_ERROR_FILE", ""},
                          {"OMP_NUM_THREADS", "1"}},
          .directory = dir.path().string()};
}

}  // namespace

TEST_CASE("a GPT-2 that is no longer finite ends all ranks at once and saves nothing of it",
          "[train]") {
  const TempDir dir;
  const auto text = write_text(dir);
  const auto outcome =
      shell(dir.path(), "OMP_NUM_THREADS=1 " + ddprun::test::find_program("ddprun") +
                            " --standalone --nproc-per-node 2 --max-restarts 3 " + kTrain + " " +
                            gpt2(text,
                                 "--max-steps 9 --ckpt-freq 2 --lr 1e4 --warmup-steps 1 "
                                 "--clip 0 --weight-decay 1e4"));
  INFO(outcome.output);
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.output, Contains(" is no longer finite in step ") &&
                                 Contains("choose a smaller --lr; there is no snapshot in "
                                          "outputs/gpt2") &&
                                 Contains("restarts used: 0 of 3"));
  CHECK_THAT(outcome.output, !Contains("Training snapshot saved"));
}

TEST_CASE("a GPT-2 whose last snapshot cannot be saved does not end well on any rank", "[train]") {
  const TempDir dir;
  const auto text = write_text(dir);
  const auto options = gpt2(text, "--max-steps 4 --ckpt-freq 2");
  // The file of tokens needs room, too, so it is made before.
  REQUIRE(two_nodes(dir.path(), gpt2(text, "--max-steps 1")).status == 0);
  // In KiB: less than the tensors' 3 MB, more than the output, which is a file of the same limit.
  const auto outcome = two_nodes(dir.path(), options, "", "ulimit -f 64; trap '' XFSZ;");
  INFO(outcome.output);
  CHECK(outcome.status == 1);
  // Only rank 1's disk is full, and both ranks say so.
  CHECK(count_of(outcome.output,
                 "outputs/gpt2: the last snapshot could not be saved (rank 1); the "
                 "newest snapshot in outputs/gpt2 is of step 4") == 2);
}

TEST_CASE("a step of more micro-steps than an epoch has samples takes the epoch, and ends",
          "[train]") {
  const TempDir dir;
  const auto text = dir.write("one_sample.txt", "seventeen letters");
  const auto outcome = train(dir.path(),
                             "gpt2 -s 16 -b 1000000000000 --validation-share 0 --max-steps 1 "
                             "--accumulation 1000000000000 --data " +
                                 text);
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.output, Contains("1 steps are done") || Contains("Training finished"));
}

TEST_CASE("ranks with different options are told apart before they train", "[train]") {
  const TempDir dir;
  const auto text = write_text(dir);
  const struct {
    std::string both, only_1, sentence;
  } cases[] = {
      {"linear 3 1", "--lr 0.5", "--lr is 0.5 on rank 1 and 0.001 on rank 0"},
      {"linear 3 1", "--seed 4", "--seed is 4 on rank 1 and 0 on rank 0"},
      {gpt2(text, "--max-steps 3"), "--zero", "--zero is given on rank 1 and not given on rank 0"},
      {gpt2(text, "--max-steps 3"), "--accumulation 2", "--accumulation is 2 on rank 1 and 1 on"},
      {gpt2(text, ""), "--max-steps 3", "--max-steps is 3 on rank 1 and none on rank 0"},
      {gpt2(text, "--max-steps 3"), "-m 10m", "--model is "},
  };
  for (const auto& [both, only_1, sentence] : cases) {
    const auto outcome = two_nodes(dir.path(), both, only_1);
    INFO(outcome.output);
    CHECK(outcome.status == 1);
    CHECK(count_of(outcome.output, sentence) == 2);
    CHECK(count_of(outcome.output, "; give every node the same options\n") == 2);
  }
  // The same value in other words.
  CHECK(two_nodes(dir.path(), "linear 1 1", "--lr 1e-3 --snapshot-path elsewhere").status == 0);
}

#ifndef DDPRUN_SANITIZED  // a sanitizer reserves more addresses than the limit leaves
TEST_CASE("a training that does not fit into memory is not started again", "[train]") {
  const TempDir dir;
  const auto text = write_text(dir);
  const auto outcome = shell(dir.path(), "ulimit -v 1500000; OMP_NUM_THREADS=1 " +
                                             ddprun::test::find_program("ddprun") +
                                             " --standalone --max-restarts 2 " + kTrain +
                                             " gpt2 --max-steps 1 -m 774m --data " + text);
  INFO(outcome.output);
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.output,
             Contains("ddprun worker of rank 0: there is not enough memory for this training; ") &&
                 Contains("restarts used: 0 of 2"));
}

TEST_CASE("a training whose products find no memory for their code ends with a sentence",
          "[train]") {
  const TempDir dir;
  const auto text = write_text(dir);
  // From little more than the program itself to little less than what the training takes.
  for (const char* kibibytes : {"400000", "420000", "440000"}) {
    const auto outcome =
        shell(dir.path(), std::string("ulimit -c 0; ulimit -v ") + kibibytes +
                              "; OMP_NUM_THREADS=2 exec " + kTrain +
                              " gpt2 -m 10m --batch-size 2 --max-steps 1 --data " + text);
    INFO(kibibytes << '\n' << outcome.output);
    CHECK(outcome.status == 1);
    CHECK_THAT(outcome.output,
               Contains("ddprun worker: there is not enough memory for this training; "));
  }
}
#endif

TEST_CASE("what is wrong at the next attempt, too, costs no restart", "[train]") {
  const TempDir dir;
  const auto text = write_text(dir);
  const auto small = gpt2(text, "--max-steps 1 ");
  REQUIRE(train(dir.path(), small).status == 0);
  const auto file = dir.write("file", "");
  dir.write("model/config.json", R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2,
                                     "n_positions": 32, "vocab_size": 257})");
  dir.write("model/model.safetensors", "no header");
  dir.write("foreign/config.json", R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2,
                                       "n_positions": 32, "vocab_size": 300})");
  const auto bin =
      dir.write("tokens.bin", ddp_test::token_bin({1, 2, 3, 60000, 5, 6, 7, 8, 9, 10, 11, 12, 13}));
  const struct {
    std::string command, sentence;
  } cases[] = {
      {small + "-m 10m", "snapshot of another model"},
      {small + "--seed 1", "snapshot of a run with another --seed"},
      {small + "--export " + file, "file: --export cannot make this folder: "},
      {small + "--metrics " + file, "file/rank-0.jsonl: cannot be written: "},
      {small + "--tensorboard " + file, "cannot be written: "},
      {small + "-e foreign -m foreign", "foreign: has no tokenizer, and its model has 300 tokens"},
      {small + "-e folder -m model", "model/model.safetensors: "},
      {"gpt2 -s 4 --max-steps 9 -e bin --validation-share 0 --data " + bin, "token 3 is 60000"},
      {"linear 3", "save_every is required; see train linear --help"},
      {"linear 3 1 --snapshot-path " + file, "file: cannot be read as a directory"},
  };
  for (const auto& [command, sentence] : cases) {
    const auto outcome =
        shell(dir.path(), "OMP_NUM_THREADS=1 " + ddprun::test::find_program("ddprun") +
                              " --standalone --max-restarts 2 " + kTrain + " " + command);
    INFO(command << "\n" << outcome.output);
    CHECK(outcome.status == 1);
    CHECK_THAT(outcome.output, Contains("ddprun worker of rank 0: ") && Contains(sentence) &&
                                   Contains("restarts used: 0 of 2") &&
                                   !Contains("ddp::DoNotRetry"));
  }
}

TEST_CASE("an export that fails at the end is its own reason, and costs no restart", "[train]") {
  const TempDir dir;
  const auto text = dir.write("one_sample.txt", "seventeen letters");
  // The place is tried at the start, but this is only met when the weights are written.
  std::filesystem::create_directories(dir.path() / "exported/model.safetensors");
  const auto outcome = shell(
      dir.path(), ddprun::test::find_program("ddprun") +
                      " --standalone --nproc-per-node 2 --max-restarts 2 " + kTrain +
                      " gpt2 -s 16 --max-steps 2 --validation-share 0 --export exported --metrics "
                      "metrics --data " +
                      text);
  INFO(outcome.output);
  CHECK(outcome.status == 1);
  // Whichever rank ends first, it gives the reason, and not that it lost the other one.
  CHECK_THAT(outcome.output, Contains("traceback : exported/model.safetensors") &&
                                 Contains("cannot be brought to the disk: Is a directory") &&
                                 Contains("restarts used: 0 of 2") && !Contains("is gone"));
  // An epoch is one sample, and so one step.
  CHECK_THAT(outcome.output, Contains("\nstep 2/2 | epoch 1 | "));
  // The only sample was rank 0's: the other one has no loss, which is not one of 0.
  CHECK_THAT(shell(dir.path(), "cat metrics/rank-1.jsonl").output,
             Contains("\"loss\":null") && !Contains("\"loss\":0"));
}

TEST_CASE("a file of tokens that is cut short while it is trained on ends with a sentence",
          "[train]") {
  const TempDir dir;
  const std::vector<std::uint16_t> tokens(200000, 7);
  const auto bin = dir.write("tokens.BIN", ddp_test::token_bin(tokens));
  ddprun::test::ChildProcess job(alone(dir, gpt2(bin, "--validation-share 0")));
  REQUIRE(job.wait_for_out("step 2/"));
  std::filesystem::resize_file(bin, 5000);
  CHECK(job.exit_code() == 1);
  CHECK_THAT(job.err(),
             Contains("tokens.BIN: was shortened while it was read; make it whole again"));
}

TEST_CASE("a job whose snapshot path another job takes ends at its next save", "[train]") {
  const TempDir dir;
  ddprun::test::ChildProcess first(
      {.argv = {"ddprun", "--standalone", "--max-restarts", "2", "train", "linear", "1000000", "1"},
       .directory = dir.path().string()});
  REQUIRE(first.wait_for_out("Epoch 3 | Training snapshot saved"));
  CHECK(train(dir.path(), "linear 1 1").status == 0);  // nothing to do, and yet the path is its own
  CHECK(first.exit_code() == 1);
  INFO(first.report());
  CHECK_THAT(first.err(), Contains("let one job at a time use a snapshot path") &&
                              Contains("restarts used: 0 of 2"));
}

TEST_CASE("a signal in the middle of a product harms no memory", "[train]") {
  const TempDir dir;
  const auto text = write_text(dir);
  // Where a kernel of oneDNN uses the stack pointer for itself, every second of these would crash.
  for (int run = 0; run < 4; ++run) {
    const auto name = " -e run" + std::to_string(run);
    ddprun::test::ChildProcess job(
        {.argv = {"bash", "-c",
                  "exec " + kTrain +
                      " gpt2 --max-steps 10000 --log-freq 1 --validation-share 0 "
                      "--data " +
                      text + name},
         .environment = {{"RANK", ""},
                         {"WORLD_SIZE", ""},
                         {"TORCHELASTIC_ERROR_FILE", ""},
                         {"OMP_NUM_THREADS", run % 2 == 0 ? "1" : "2"}},
         .directory = dir.path().string()});
    REQUIRE(job.wait_for_out("step 2/"));
    job.signal(SIGTERM);
    const auto status = job.exit_code();
    INFO(job.report());
    CHECK(status == 75);
    CHECK_THAT(job.out(), Contains("Training snapshot saved") &&
                              Contains("Left in order at step ") &&
                              Contains(": the same command goes on from there\n"));
  }
}

TEST_CASE("a signal in the validation behind the last step ends a training in order", "[train]") {
  const TempDir dir;
  std::string text;
  while (text.size() < 30'000'000) {  // a minute and more, of which three seconds are waited for
    text += "ab cd efghi jk\n";
  }
  const auto path = dir.write("long.txt", text);
  ddprun::test::ChildProcess job(alone(dir, gpt2(path, "--max-steps 1")));
  REQUIRE(job.wait_for_out("step 1 | Training snapshot saved"));
  job.signal(SIGTERM);
  const int code = job.exit_code();
  INFO(job.report());
  CHECK(code == kLeftStatus);
  CHECK_THAT(job.out(), Contains("step 1 | no validation: this job is to leave\n") &&
                            Contains("the same command goes on from there\n") &&
                            !Contains("Validation loss"));
}

TEST_CASE("a signal before the first step ends a training in order, whatever it waits for",
          "[train]") {
  const TempDir dir;
  const auto start = [&dir](const std::vector<std::string>& words) {
    std::vector<std::string> argv{"env", "-u", "GOMP_SPINCOUNT", "-u", "OMP_WAIT_POLICY", kTrain};
    argv.insert(argv.end(), words.begin(), words.end());
    return ddprun::test::ChildRequest{
        .argv = argv,
        .environment = {{"RANK", ""}, {"WORLD_SIZE", ""}, {"TORCHELASTIC_ERROR_FILE", ""}},
        .directory = dir.path().string()};
  };
  const int signal = GENERATE(SIGTERM, SIGUSR1);
  SECTION("while it reads its data") {
    ddprun::test::LeasedFile data(dir.file("data.csv"));
    ddprun::test::ChildProcess job(
        start({"linear", "5", "1", "--data", data.path(), "--target", "y"}));
    REQUIRE(data.await_reader());
    job.signal(signal);
    CHECK(job.exit_code() == kLeftStatus);
    INFO(job.report());
    CHECK(job.err() == "ddprun worker: left by a signal before the first step\n");
  }
  SECTION("while it begins anew, to set how its threads wait") {
    ddprun::test::ChildProcess job(start({"linear", "1000000", "1000000"}));
    REQUIRE(ddprun::test::wait_until(
        [&job] { return !ddprun::test::environment_of(job.pid(), "GOMP_SPINCOUNT").empty(); }));
    job.signal(signal);
    const int code = job.exit_code();
    INFO(job.report());
    CHECK(code == kLeftStatus);
  }
}

TEST_CASE("a signal before the first step, to one worker alone, is an order to the job",
          "[train]") {
  const TempDir dir;
  ddprun::test::LeasedFile data(dir.file("data.csv"));
  const int signal = GENERATE(SIGTERM, SIGUSR1);
  const auto* workers = GENERATE("1", "2");
  INFO("signal " << signal << ", " << workers << " workers");
  // Rank 0 waits for what never comes, as for a peer that has left.
  const std::string last = workers == std::string("1") ? "0" : "1";
  ddprun::test::ChildProcess job(
      {.argv = {ddprun::test::find_program("ddprun"), "--standalone", "--nproc-per-node", workers,
                "sh", "-c",
                "[ $RANK = " + last + " ] && exec " + kTrain + " linear 5 1 --data " + data.path() +
                    " --target y; exec sleep 1000"},
       .environment = {{"TORCHELASTIC_ERROR_FILE", ""}},
       .directory = dir.path().string()});
  REQUIRE(data.await_reader());
  REQUIRE(::kill(ddprun::test::worker_of(job.pid(), std::stoi(last)), signal) == 0);
  const int code = job.exit_code();
  INFO(job.report());
  CHECK(code == kLeftStatus);
  CHECK_THAT(job.err(), Contains("left by a signal before the first step\n") &&
                            Contains("job preempted after 1 attempt") &&
                            Contains(last == "0" ? "its workers were signalled to save and end"
                                                 : "(a signal to one of its workers)"));
}

TEST_CASE("all ranks tell of one attempt, also where a rank's file names fewer", "[train]") {
  const TempDir dir;
  const auto command = gpt2(write_text(dir), "--max-steps 1 --metrics m");
  const auto told = R"({"event":"step","attempt":4})";
  dir.write("1/m/rank-1.jsonl", std::string(told) + "\n");
  REQUIRE(two_nodes(dir.path(), command).status == 0);
  for (const char* file : {"0/m/rank-0.jsonl", "1/m/rank-1.jsonl"}) {
    CHECK_THAT(ddprun::test::read_file(dir.file(file)), Contains(R"("attempt":5)"));
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path())) {
    CHECK_FALSE(entry.path().filename().string().starts_with(".ddprun-shared-"));
  }
}

TEST_CASE("threads spin briefly, unless the user says how they wait", "[train]") {
  const TempDir dir;
  for (const std::string policy : {"", "OMP_WAIT_POLICY=active ", "GOMP_SPINCOUNT=7 "}) {
    ddprun::test::ChildProcess job(
        {.argv = {"bash", "-c",
                  "unset GOMP_SPINCOUNT OMP_WAIT_POLICY; " + policy + "exec " + kTrain +
                      " linear 1000000 1000000 --snapshot-path s"},
         .environment = {{"RANK", ""}, {"WORLD_SIZE", ""}, {"TORCHELASTIC_ERROR_FILE", ""}},
         .directory = dir.path().string()});
    REQUIRE(job.wait_for_out("Epoch 1 |"));
    const auto environment =
        ddprun::test::read_file("/proc/" + std::to_string(job.pid()) + "/environ");
    const auto expected = policy.empty() ? std::string("GOMP_SPINCOUNT=1000") : policy;
    CHECK_THAT(environment, Contains(expected.substr(0, expected.find(' '))));
    CHECK(count_of(environment, "GOMP_SPINCOUNT=") == (policy.starts_with("OMP") ? 0 : 1));
    CHECK(ddprun::test::read_file("/proc/" + std::to_string(job.pid()) + "/comm") == "train\n");
    job.signal(SIGKILL);
  }
}

TEST_CASE("a snapshot that holds NaN is not gone on from", "[train]") {
  const TempDir dir;
  const auto path = dir.file("snapshot.ddp");
  {
    const Context alone = init();
    Snapshot snapshot(alone, {.path = path, .say = {}});
    std::vector<float> weight(20, 1);
    weight[19] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<NamedTensor> tensors = {{"weight", Tensor::from(weight, {1, 20})},
                                              {"bias", Tensor::zeros({1})},
                                              {"momentum.weight", Tensor::zeros({1, 20})},
                                              {"momentum.bias", Tensor::zeros({1})}};
    SnapshotState state;
    state.model = "linear toy";
    state.epochs_run = 2;
    state.notes = {{"seed", "0"}};
    REQUIRE(snapshot.save(state, tensors) == SaveResult::saved);
  }
  const auto outcome = train(dir.path(), "linear 5 1");
  INFO(outcome.output);
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.output,
             Contains("snapshot.ddp: the newest snapshot, of epoch 2, holds numbers that are not "
                      "finite ('weight'); remove its folder to go on from the one before"));
  std::filesystem::remove_all(path + "/00000001");
  CHECK(train(dir.path(), "linear 5 1").status == 0);
}

namespace {

/// Saves the newest snapshot once more, without this scalar: as another program might write it.
void drop_scalar(const std::filesystem::path& path, const std::string& newest,
                 const std::string& scalar) {
  const auto file = ddprun::test::read_file(path / newest / "tensors.safetensors");
  std::vector<NamedTensor> tensors;
  for (const auto& entry : read_safetensors_header(std::as_bytes(std::span(file)))) {
    tensors.push_back({entry.name, Tensor::zeros(entry.shape)});
  }
  const auto state_json = ddprun::test::read_file(path / newest / "state.json");
  std::smatch model;
  REQUIRE(std::regex_search(state_json, model, std::regex(R"x("model": ?"([^"]*)")x")));
  const Context alone = init();
  Snapshot snapshot(alone, {.path = path, .say = {}});
  auto state = snapshot.load(model[1].str(), tensors);
  REQUIRE(state.has_value());
  REQUIRE(state->scalars.erase(scalar) == 1);
  REQUIRE(snapshot.save(*state, tensors) == SaveResult::saved);
}

}  // namespace

TEST_CASE("a snapshot of a GPT-2 that does not say its step is refused in a sentence", "[train]") {
  const TempDir dir;
  const auto text = write_text(dir);
  REQUIRE(train(dir.path(), gpt2(text, "--max-steps 2")).status == 0);
  drop_scalar(dir.path() / "outputs/gpt2", "00000001", "step");
  const auto outcome = train(dir.path(), gpt2(text, "--max-steps 4"));
  INFO(outcome.output);
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.output,
             Contains("outputs/gpt2: the newest snapshot does not say how many steps are done "
                      "('step'); remove its folder to go on from the one before"));
  std::filesystem::remove_all(dir.path() / "outputs/gpt2/00000002");
  CHECK(train(dir.path(), gpt2(text, "--max-steps 4")).status == 0);
}

TEST_CASE("a validation at an epoch's end is of that epoch", "[train]") {
  const TempDir dir;
  // 8 samples of 16 tokens and their targets, half of them held out: 2 steps an epoch.
  const auto text = dir.write("text.txt", std::string(8 * 17, 'a'));
  const auto options =
      gpt2(text, "--validation-share 0.5 --ckpt-freq 2 --num-epochs 2 --metrics m");
  const auto outcome = train(dir.path(), options);
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  const auto lines = ddprun::test::read_file(dir.path() / "m/rank-0.jsonl");
  INFO(lines);
  const std::regex record(R"("event":"validation".*"step":(\d+),"epoch":(\d+))");
  std::vector<std::string> found;
  for (std::sregex_iterator at(lines.begin(), lines.end(), record), end; at != end; ++at) {
    found.push_back((*at)[1].str() + " of " + (*at)[2].str());
  }
  CHECK(found == std::vector<std::string>{"2 of 0", "4 of 1"});
}

}  // namespace ddp
