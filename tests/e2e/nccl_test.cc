// Jobs whose ranks reduce by NCCL, over stand-ins for the GPU and for NCCL that fail in attempt 0:
// the agent gets an error file that names the operation, no worker stays, the next attempt goes on.
// And trainings whose kernels the stand-in runs.
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tests/e2e/lone_agent.h"
#include "tests/support/child_process.h"
#include "tests/support/event_wait.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

constexpr int kSteps = 12;
/// The stand-in computes a GPU's kernels on the CPU: a step takes seconds where a sanitizer looks
/// on.
constexpr std::chrono::minutes kComputes{4};

struct Job {
  Finished finished;
  std::chrono::steady_clock::duration took{};
};

/// Two workers of one agent, with one restart.
Job job_with(const std::string& faults, const std::vector<std::string>& options = {}) {
  const TempDir folder;
  std::vector<std::string> argv{"ddprun", "--standalone",   "--nproc-per-node",
                                "2",      "--max-restarts", "1"};
  argv.insert(argv.end(), options.begin(), options.end());
  argv.insert(argv.end(), {NCCL_WORKER, std::to_string(kSteps), folder.file("snapshot")});
  const auto begin = std::chrono::steady_clock::now();
  Job job{.finished = run({.argv = argv,
                           .environment = {{"DDPRUN_GPU_LIBRARY", STANDIN_GPU},
                                           {"DDPRUN_NCCL_LIBRARY", STANDIN_NCCL},
                                           {"DDPRUN_STANDIN_NCCL_FAULT", faults}}})};
  job.took = std::chrono::steady_clock::now() - begin;
  return job;
}

/// The bits that both ranks end with.
std::string bits(const Job& job) {
  std::string first = line_after(job.finished.out, "done 0 ");
  CHECK(!first.empty());
  CHECK(line_after(job.finished.out, "done 1 ") == first);
  return first;
}

/// It went on once, and ended as a job that nothing happened to.
void check_recovered(const Job& job) {
  INFO(job.finished.out);
  INFO(job.finished.err);
  CHECK(job.finished.exit_code == 0);
  CHECK(contains(job.finished.err, "restarts used: 1 of 1"));
  CHECK(bits(job) == bits(job_with("")));
  CHECK(job.took < std::chrono::seconds(40));
}

/// `train gpt2` on two workers whose GPU and libraries are stand-ins, or on the CPU.
Finished gpt2_job(bool on_gpus, const std::string& faults, const std::string& nccl = STANDIN_NCCL) {
  const TempDir folder;
  std::string text;
  for (int line = 0; line < 60; ++line) {
    text += "line " + std::to_string(line * line % 97) + " of a text that repeats itself\n";
  }
  folder.write("text.txt", text);
  std::map<std::string, std::string> environment{{"OMP_NUM_THREADS", "1"}};
  if (on_gpus) {
    environment.insert({{"DDPRUN_GPU_LIBRARY", STANDIN_GPU},
                        {"DDPRUN_NCCL_LIBRARY", nccl},
                        {"DDPRUN_CUBLASLT_LIBRARY", STANDIN_CUBLASLT},
                        {"DDPRUN_STANDIN_NCCL_FAULT", faults}});
  }
  // A snapshot after each step, which waits for the one before: whoever dies in step 4 finds that
  // of step 2.
  return run({.argv = {"ddprun",
                       "--standalone",
                       "--nproc-per-node",
                       "2",
                       "--max-restarts",
                       "1",
                       "train",
                       "gpt2",
                       "--data",
                       folder.file("text.txt"),
                       "--save-dir",
                       folder.file("out"),
                       "--seq-length",
                       "12",
                       "--batch-size",
                       "1",
                       "--warmup-steps",
                       "1",
                       "--max-steps",
                       "5",
                       "--ckpt-freq",
                       "1",
                       "--log-freq",
                       "1",
                       "--validation-share",
                       "0"},
              .environment = environment},
             kComputes);
}

}  // namespace

TEST_CASE("a GPU that no rank can use for want of NCCL stays idle, and the job says so once") {
  const Finished job = gpt2_job(true, "", "/nonexistent/libnccl.so.2");
  INFO(job.out);
  INFO(job.err);
  CHECK(job.exit_code == 0);
  CHECK_FALSE(contains(job.out, "on GPUs"));
  CHECK(count_of(job.err, "training on the CPU, because rank 0: ") == 1);
  CHECK(contains(job.err, "/nonexistent/libnccl.so.2"));
}

TEST_CASE("workers that hang in a collective of NCCL's end when the agent stops the attempt") {
  const Job job = job_with("hangs:5", {"--hang-timeout", "2"});
  check_recovered(job);
  CHECK(contains(job.finished.err, "wait in all_reduce #"));
}

// The agent stops the others when the first of the two has ended: which one it is, is open.
TEST_CASE("an error of NCCL's is in the summary with operation, sequence and rank") {
  const Job job = job_with("async-error@1:5");
  check_recovered(job);
  const std::string why =
      "remote process exited or there was a network error (the stand-in lost a connection)";
  const std::string cause = " (f32[65536]) was aborted: " + why;
  const std::string victim = " (f32[65536]) failed: rank 1 is gone (NCCL failed there: " + why;
  CHECK((contains(job.finished.err, cause) || contains(job.finished.err, victim)));
  CHECK(contains(job.finished.err, "all_reduce #"));
}

TEST_CASE("workers end by themselves although NCCL's abort never returns") {
  const Job job = job_with("async-error@1:5,abort-blocks");
  check_recovered(job);
  CHECK(contains(job.finished.err, "NCCL's abort does not return"));
  CHECK(contains(job.finished.err, "exited with code 1: all_reduce #"));
  CHECK(contains(job.finished.err, " (f32[65536]) "));
}

TEST_CASE("a worker that dies inside a call of NCCL's is named, and the job goes on") {
  const Job job = job_with("dies@1:5");
  check_recovered(job);
  CHECK(contains(job.finished.err, "rank 1 on "));
  CHECK(contains(job.finished.err, "was killed by SIGKILL"));
}

TEST_CASE("a GPT-2 learns on GPUs as on CPUs, and a worker's death changes no bit of it") {
  const Finished cpu = gpt2_job(false, "");
  const Finished calm = gpt2_job(true, "");
  // 52 broadcasts come first, then each step reduces twice.
  const Finished hit = gpt2_job(true, "dies@1:60");
  for (const Finished& finished : {cpu, calm, hit}) {
    INFO(finished.out << finished.err);
    REQUIRE(finished.exit_code == 0);
  }
  CHECK(contains(calm.out, " | on GPUs in bf16"));
  CHECK_FALSE(contains(cpu.out, "GPUs"));
  CHECK(contains(hit.err, "was killed by SIGKILL"));
  CHECK(contains(hit.out, "Resuming training from snapshot"));
  const std::string weights = line_after(calm.out, "Training finished: 5 steps, weights ");
  CHECK(weights.size() == 16);
  CHECK(line_after(hit.out, "Training finished: 5 steps, weights ") == weights);
  const auto loss = [](const Finished& finished) {
    return std::stod(line_after(finished.out, "step 5/5 | epoch 0 | running_loss "));
  };
  CHECK(loss(calm) == Approx(loss(cpu)).epsilon(0.01));
  CHECK(line_after(cpu.out, "Training finished: 5 steps, weights ") != weights);
}

TEST_CASE("the linear model learns on GPUs what it learns on CPUs") {
  const auto learned = [](const std::map<std::string, std::string>& environment) {
    const TempDir folder;
    const Finished finished =
        run({.argv = {"ddprun", "--standalone", "--nproc-per-node", "2", "train", "linear", "3",
                      "3", "--snapshot-path", folder.file("snapshot")},
             .environment = environment});
    INFO(finished.err);
    CHECK(finished.exit_code == 0);
    CHECK(contains(finished.out, environment.empty() ? "[CPU1] Epoch 2" : "[GPU1] Epoch 2"));
    return line_after(finished.out, "Training finished: ");
  };
  const std::string cpu = learned({});
  CHECK(contains(cpu, ", weights "));
  CHECK(learned({{"DDPRUN_GPU_LIBRARY", STANDIN_GPU}, {"DDPRUN_NCCL_LIBRARY", STANDIN_NCCL}}) ==
        cpu);
}

TEST_CASE("a GPU without a cuBLASLt that can be used ends the job at once, with a sentence") {
  const TempDir folder;
  folder.write("text.txt", std::string(2000, 'x'));
  const auto said_with = [&](const std::string& library) {
    const Finished finished = run(
        {.argv = {"ddprun", "--standalone", "--max-restarts", "3", "train", "gpt2", "--data",
                  folder.file("text.txt"), "--save-dir", folder.file("out"), "--seq-length", "8"},
         .environment = {{"DDPRUN_GPU_LIBRARY", STANDIN_GPU},
                         {"DDPRUN_NCCL_LIBRARY", STANDIN_NCCL},
                         {"DDPRUN_CUBLASLT_LIBRARY", library}}});
    CHECK(finished.exit_code == 1);
    CHECK(contains(finished.err, "job failed after 1 attempt"));
    CHECK_FALSE(contains(finished.out, "on GPUs in bf16"));  // before the training says its start
    return finished.err;
  };
  CHECK(
      contains(said_with("/no/such/file"),
               "cuBLASLt cannot be opened (/no/such/file: cannot open shared object file: No such "
               "file or directory); install it, or name its file by DDPRUN_CUBLASLT_LIBRARY"));
  CHECK(contains(said_with(STANDIN_NCCL), std::string(STANDIN_NCCL) +
                                              " has no cublasLtCreate: it is no cuBLASLt of CUDA "
                                              "12 or 13; name one by "
                                              "DDPRUN_CUBLASLT_LIBRARY"));
}

}  // namespace ddprun::test
