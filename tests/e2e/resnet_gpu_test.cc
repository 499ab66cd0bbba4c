// `train resnet` where there is a GPU, over stand-ins for it and its libraries: what a cuDNN that
// is not of use is answered with.
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "tests/e2e/lone_agent.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

/// A record of CIFAR-10's binary form: a label, and the bytes of an image.
std::string images(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes += static_cast<char>(i % 10);
    bytes += std::string(3072, static_cast<char>(i * 37));
  }
  return bytes;
}

/// A job of one epoch, of a single step: the stand-in takes seconds for each, and tens of them
/// where it is watched for wrong reads.
Finished trained(std::map<std::string, std::string> environment, int max_restarts) {
  const TempDir folder;
  folder.write("data/data_batch_1.bin", images(1));
  folder.write("data/test_batch.bin", images(1));
  environment.insert({{"DDPRUN_GPU_LIBRARY", STANDIN_GPU},
                      {"DDPRUN_NCCL_LIBRARY", STANDIN_NCCL},
                      {"DDPRUN_CUBLASLT_LIBRARY", STANDIN_CUBLASLT},
                      {"DDPRUN_CUDNN_LIBRARY", STANDIN_CUDNN}});
  return run(
      {.argv = {"ddprun", "--standalone", "--max-restarts", std::to_string(max_restarts), "train",
                "resnet", "--data", folder.file("data"), "--stem", "large", "--batch-size", "1",
                "--epochs", "1", "--snapshot-path", folder.file("snapshot")},
       .environment = environment});
}

/// What the user reads of a job that may be restarted, but has no reason to be.
Finished refused(const std::map<std::string, std::string>& environment) {
  Finished finished = trained(environment, 3);
  INFO(finished.out << finished.err);
  CHECK(finished.exit_code == 1);
  CHECK(contains(finished.err, "job failed after 1 attempt"));
  return finished;
}

}  // namespace

TEST_CASE("a GPU without a cuDNN that can be used ends the job before the first epoch") {
  const auto said_by = [](const std::map<std::string, std::string>& environment) {
    const Finished finished = refused(environment);
    CHECK_FALSE(contains(finished.out, "Epoch 0"));
    return finished.err;
  };
  CHECK(contains(said_by({{"DDPRUN_CUDNN_LIBRARY", "/no/such/file"}}),
                 "cuDNN cannot be opened (/no/such/file: cannot open shared object file: No such "
                 "file or directory); install cuDNN 9, or name its file by DDPRUN_CUDNN_LIBRARY"));
  CHECK(
      contains(said_by({{"DDPRUN_CUDNN_LIBRARY", STANDIN_NCCL}}),
               std::string(STANDIN_NCCL) +
                   " has no cudnnGetVersion: it is no cuDNN 9; name one by DDPRUN_CUDNN_LIBRARY"));
  CHECK(contains(said_by({{"DDPRUN_STANDIN_CUDNN_VERSION", "8907"}}),
                 std::string(STANDIN_CUDNN) +
                     " is cuDNN 8907 as it counts itself, and training takes 9.0 (90000) or later; "
                     "name a later one by DDPRUN_CUDNN_LIBRARY"));
}

TEST_CASE("a cuDNN without an engine of equal bits ends the job, and the convolution is named") {
  const Finished finished = refused({{"DDPRUN_STANDIN_CUDNN_ENGINES", "1"}});
  CHECK(contains(finished.err,
                 "cuDNN 90100 has no engine whose results have the same bits each time for a 7 x 7 "
                 "convolution from 8 to 64 channels, stride 2, of 1 images of 32 x 32 in bf16"));
}

TEST_CASE("a plan that cuDNN had no memory for ends the attempt, and one it never has does not") {
  const Finished no_memory = trained({{"DDPRUN_STANDIN_CUDNN_PLAN", "4003"}}, 1);
  INFO(no_memory.out << no_memory.err);
  CHECK(no_memory.exit_code == 1);
  CHECK(contains(no_memory.err,
                 "cuDNN: to finalize descriptor EXECUTION_PLAN failed with "
                 "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED: it was told to make no such "
                 "plan"));
  CHECK(contains(no_memory.err, "job failed after 2 attempts"));  // the next one may find some
  CHECK(trained({{"DDPRUN_STANDIN_CUDNN_PLAN", "3000"}}, 0).exit_code == 0);
}

}  // namespace ddprun::test
