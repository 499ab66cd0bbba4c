// TrainingLog over real directories. What it shows on a terminal, and what TensorBoard reads of it,
// is in tests/interop/metrics_test.py.
#include "trainer/metrics/training_log.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ddp/error.h"
#include "tests/support/temp_dir.h"

namespace ddp {
namespace {

using ddprun::test::read_file;
using ddprun::test::TempDir;

std::vector<nlohmann::json> lines_of(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) {
    lines.push_back(nlohmann::json::parse(line, nullptr, false));
  }
  return lines;
}

TrainingLogOptions into(const TempDir& dir) {
  TrainingLogOptions options;
  options.rank = 1;  // silent: rank 0 prints
  options.world_size = 2;
  options.directory = dir.path() / "metrics";
  return options;
}

StepRecord numbered(std::int64_t step) {
  StepRecord record;
  record.step = step;
  record.loss = 1.0 / static_cast<double>(step);
  return record;
}

}  // namespace

TEST_CASE("a resumed run goes on in the same file as another attempt", "[metrics]") {
  const TempDir dir;
  for (const auto& [attempt, first] : {std::pair{0, 1}, {1, 2}, {0, 2}}) {
    auto options = into(dir);
    options.attempt = attempt;
    TrainingLog log(options);
    log.step(numbered(first));
    log.step(numbered(first + 1));
  }
  std::string story;
  for (const auto& line : lines_of(dir.path() / "metrics" / "rank-1.jsonl")) {
    REQUIRE(line.is_object());
    story += line["event"].get<std::string>() + std::to_string(line["attempt"].get<int>()) +
             (line.contains("step") ? ":" + std::to_string(line["step"].get<int>()) : "") + " ";
  }
  // The third is another job, whose launcher counts from 0 again.
  CHECK(story ==
        "run0 step0:1 step0:2 run1 step1:2 step1:3 "
        "run2 step2:2 step2:3 ");
}

TEST_CASE("an attempt of which nothing was written leaves its number free", "[metrics]") {
  const TempDir dir;
  auto options = into(dir);
  options.attempt = 4;
  CHECK(TrainingLog(options).attempt() == 4);
  options.attempt = 1;
  CHECK(TrainingLog(options).attempt() == 5);
}

TEST_CASE("what is no regular file in the place of the metrics is refused before it is read",
          "[metrics]") {
  const TempDir dir;
  const auto path = dir.path() / "metrics" / "rank-1.jsonl";
  std::filesystem::create_directories(path.parent_path());
  SECTION("a FIFO, which would be waited for") {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  }
  SECTION("a device, which has no end") {
    std::filesystem::create_symlink("/dev/zero", path);
  }
  SECTION("a directory") {
    std::filesystem::create_directory(path);
  }
  CHECK_THROWS_WITH(
      TrainingLog(into(dir)),
      path.string() + ": is not a regular file; remove it, or name another directory");
}

TEST_CASE("a torn last line does not spoil the one that follows", "[metrics]") {
  const TempDir dir;
  const auto path = dir.write("metrics/rank-1.jsonl", R"({"event":"run","attempt":2})"
                                                      "\n{\"event\":\"st");
  TrainingLog(into(dir)).step(numbered(1));
  const auto lines = lines_of(path);
  REQUIRE(lines.size() == 4);
  CHECK(lines[1].is_discarded());
  CHECK(lines[2]["event"] == "run");
  CHECK(lines[2]["attempt"] == 3);
  CHECK(lines[3]["step"] == 1);
}

TEST_CASE("a directory that cannot be made is one sentence before the training", "[metrics]") {
  const TempDir dir;
  auto options = into(dir);
  options.directory = dir.write("file", "") + "/below";
  CHECK_THROWS_WITH(TrainingLog(options),
                    dir.file("file") +
                        "/below/rank-1.jsonl: cannot be written: Not a directory; "
                        "name a directory that this worker may write to");
  options = into(dir);
  options.tensorboard = dir.file("file");
  CHECK_THROWS_AS(TrainingLog(options), Error);
}

TEST_CASE("each attempt begins an event file of its own, beside the earlier ones", "[metrics]") {
  const TempDir dir;
  auto options = into(dir);
  options.tensorboard = dir.path() / "tb";
  options.experiment = "e";
  for (int attempt = 0; attempt < 3; ++attempt) {
    TrainingLog(options).step(numbered(1));
  }
  const std::filesystem::directory_iterator files(dir.path() / "tb" / "e" / "rank-1");
  CHECK(std::distance(begin(files), end(files)) == 3);
}

}  // namespace ddp
