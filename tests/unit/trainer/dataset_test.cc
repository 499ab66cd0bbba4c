#include "trainer/dataset.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "ddp/error.h"

namespace ddp {
namespace {

using Catch::Matchers::Equals;

/// 100 rows: x = row, kind = a or b, y = 3 row + 1.
CsvTable some_table() {
  std::string text = "x,kind,y,same\n";
  for (int row = 0; row < 100; ++row) {
    text +=
        std::to_string(row) + (row % 2 == 0 ? ",a," : ",b,") + std::to_string(3 * row + 1) + ",7\n";
  }
  return parse_csv(text);
}

std::string refusal(const CsvTable& table, std::string_view target) {
  try {
    csv_dataset(table, target, 0);
  } catch (const Error& problem) {
    return problem.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the toy is the tutorial's in shape and range, and the seed's in content", "[dataset]") {
  const auto data = toy_dataset(1);
  CHECK(data.feature_count == 20);
  CHECK(data.train.size() == 2048);
  CHECK(data.train.features.size() == 2048 * 20);
  CHECK(data.held_out.size() == 0);
  double sum = 0;
  for (const float value : data.train.features) {
    REQUIRE(value >= 0);
    REQUIRE(value < 1);
    sum += value;
  }
  CHECK(sum / (2048 * 20) == Approx(0.5).margin(0.01));
  CHECK(toy_dataset(1).train.features == data.train.features);
  CHECK(toy_dataset(2).train.features != data.train.features);
}

TEST_CASE("a tenth of the rows is held out, by the seed", "[dataset]") {
  const auto data = csv_dataset(some_table(), "y", 5);
  CHECK(data.train.size() == 90);
  CHECK(data.held_out.size() == 10);
  CHECK(csv_dataset(some_table(), "y", 5).held_out.features == data.held_out.features);
  CHECK(csv_dataset(some_table(), "y", 6).held_out.features != data.held_out.features);
}

TEST_CASE("numeric columns have mean 0 and deviation 1 over the training rows", "[dataset]") {
  const auto data = csv_dataset(some_table(), "y", 5);
  REQUIRE(data.feature_count == 4);  // x, kind a, kind b, same
  double mean = 0;
  double squares = 0;
  for (std::size_t i = 0; i < data.train.size(); ++i) {
    const float x = data.train.features[i * 4];
    mean += x / 90.0;
    squares += x * x / 90.0;
    // The target is a straight line of x, so standardised it is x itself.
    CHECK(data.train.targets[i] == Approx(x).margin(1e-5));
    CHECK(data.train.features[i * 4 + 1] + data.train.features[i * 4 + 2] == 1);
    CHECK(data.train.features[i * 4 + 3] == 0);
  }
  CHECK(mean == Approx(0).margin(1e-6));
  CHECK(squares == Approx(1).margin(1e-5));
}

TEST_CASE("a constant column becomes 0, whatever its number is", "[dataset]") {
  // The mean of 36 times 0.1 is not 0.1 in double.
  std::string text = "same,y\n";
  for (int row = 0; row < 40; ++row) {
    text += "0.1," + std::to_string(row) + "\n";
  }
  const auto data = csv_dataset(parse_csv(text), "y", 0);
  CHECK(data.train.features == std::vector<float>(36, 0.0F));
  CHECK(data.held_out.features == std::vector<float>(4, 0.0F));
}

TEST_CASE("a missing target names the columns there are", "[dataset]") {
  CHECK_THAT(refusal(some_table(), "prise"),
             Equals("has no column 'prise'; its columns are x, kind, y, same"));
}

TEST_CASE("a target of texts names the first of them", "[dataset]") {
  CHECK_THAT(refusal(some_table(), "kind"),
             Equals("line 2: the target column 'kind' must be numeric, but holds 'a'"));
}

TEST_CASE("too little to train on is refused", "[dataset]") {
  CHECK(refusal(parse_csv("y\n1\n2\n"), "y") != "accepted");
  CHECK(refusal(parse_csv("x,y\n1\t,2\n"), "y") != "accepted");
}

TEST_CASE("R squared is 1 for the truth and 0 for the mean", "[dataset]") {
  const Samples samples{{1, 2, 3}, {3, 5, 7}};
  CHECK(r_squared(samples, {2}, 1) == 1);
  CHECK(r_squared(samples, {0}, 5) == 0);
  CHECK(r_squared(samples, {0}, 9).value() < 0);
}

TEST_CASE("R squared of targets that are all equal is none", "[dataset]") {
  CHECK_FALSE(r_squared({{1, 2, 3}, {0.1F, 0.1F, 0.1F}}, {2}, 1).has_value());
  CHECK_FALSE(r_squared({{1}, {3}}, {2}, 1).has_value());
  CHECK_FALSE(r_squared({}, {2}, 1).has_value());
}

}  // namespace ddp
