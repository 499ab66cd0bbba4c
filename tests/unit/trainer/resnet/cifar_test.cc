#include "trainer/resnet/cifar.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "ddp/error.h"
#include "tests/support/temp_dir.h"

namespace ddp {
namespace {

using ddprun::test::TempDir;

/// A record whose pixels are all `value`.
std::string record(int label, int value) {
  return static_cast<char>(label) + std::string(kCifarPixels, static_cast<char>(value));
}

std::string refusal(const TempDir& dir) {
  try {
    read_cifar(dir.path());
  } catch (const Error& problem) {
    return problem.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("batches are read in order until the first that is not there", "[resnet]") {
  const TempDir dir;
  dir.write("data_batch_1.bin", record(3, 1) + record(9, 255));
  dir.write("data_batch_2.bin", record(0, 7));
  dir.write("test_batch.bin", record(5, 0));
  const auto data = read_cifar(dir.path());
  CHECK(data.train.labels == std::vector<std::int64_t>{3, 9, 0});
  REQUIRE(data.train.pixels.size() == 3 * kCifarPixels);
  CHECK(data.train.image(0)[0] == 1);
  CHECK(data.train.image(1)[kCifarPixels - 1] == 255);
  CHECK(data.train.image(2)[0] == 7);
  CHECK(data.test.labels == std::vector<std::int64_t>{5});
}

TEST_CASE("what is no CIFAR-10 is refused in one sentence that names the file", "[resnet]") {
  const TempDir dir;
  const auto first = dir.file("data_batch_1.bin");
  CHECK(refusal(dir) == first +
                            ": cannot be read: No such file or directory; --data names the folder "
                            "with the .bin files of CIFAR-10");
  const auto whole = record(1, 1);
  for (const auto& [content, size] : {std::pair{whole.substr(1), "3072"}, {whole + "x", "3074"}}) {
    dir.write("data_batch_1.bin", content);
    CHECK(refusal(dir) == first + ": " + size +
                              " bytes are no whole number of records of 3073 bytes; copy the file "
                              "again");
  }
  dir.write("data_batch_1.bin", "");
  CHECK(refusal(dir) == first + ": is empty; copy the file again");
  dir.write("data_batch_1.bin", whole + record(10, 1));
  CHECK(refusal(dir) == first + ": record 2 has the label 10; labels of CIFAR-10 are 0 to 9");
  dir.write("data_batch_1.bin", whole);
  CHECK(refusal(dir).starts_with(dir.file("test_batch.bin") + ": cannot be read: "));
  std::filesystem::create_directory(dir.file("test_batch.bin"));
  CHECK(refusal(dir).starts_with(dir.file("test_batch.bin") + ": cannot be read: Is a directory"));
  std::filesystem::remove(dir.file("test_batch.bin"));
  REQUIRE(::mkfifo(dir.file("test_batch.bin").c_str(), 0600) == 0);  // nobody writes to it
  CHECK(refusal(dir).starts_with(dir.file("test_batch.bin") + ": is not a regular file; --data"));
  std::filesystem::remove(dir.file("test_batch.bin"));
  dir.write("test_batch.bin", whole);
  CHECK(refusal(dir) == "accepted");
  dir.write("data_batch_3.bin", whole);
  CHECK(refusal(dir) == dir.file("data_batch_2.bin") +
                            ": is missing, but data_batch_3.bin is there; copy all of them");
}

}  // namespace ddp
