// How the samples of a step are divided among ranks.
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "ddp/error.h"
#include "trainer/batch_shares.h"
#include "trainer/uniform.h"

namespace ddp {
namespace {

using Shares = std::vector<std::size_t>;

}  // namespace

TEST_CASE("samples are divided in proportion to weights, by largest remainders", "[balance]") {
  CHECK(divide_samples(16, {3, 1}) == Shares{12, 4});
  CHECK(divide_samples(16, {1, 1, 1}) == Shares{6, 5, 5});
  CHECK(divide_samples(10, {1, 1.9, 1}) == Shares{3, 5, 2});
  CHECK(divide_samples(8, {0.25, 0.25}) == Shares{4, 4});
}

TEST_CASE("each rank keeps a sample, however slow it is", "[balance]") {
  CHECK(divide_samples(8, {1000, 1, 1}) == Shares{6, 1, 1});
  CHECK(divide_samples(3, {1000, 1, 1}) == Shares{1, 1, 1});
  CHECK(divide_samples(5, {1, 1e-6, 1, 1e-6}) == Shares{2, 1, 1, 1});
  CHECK_THROWS_AS(divide_samples(2, {1, 1, 1}), InvalidArgument);
  CHECK_THROWS_AS(divide_samples(4, {1, 0}), InvalidArgument);
  CHECK_THROWS_AS(divide_samples(4, {1, std::numeric_limits<double>::infinity()}), InvalidArgument);
}

TEST_CASE("shares come to the samples of the step, whatever the weights", "[balance]") {
  Uniform random(7);
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> weights(1 + static_cast<std::size_t>(12 * random.next()));
    for (double& weight : weights) {
      weight = 1e-6 + static_cast<double>(random.next()) * (random.next() < 0.3F ? 1e5 : 1);
    }
    const auto samples = weights.size() + static_cast<std::size_t>(100 * random.next());
    const auto shares = divide_samples(samples, weights);
    CHECK(std::accumulate(shares.begin(), shares.end(), std::size_t{0}) == samples);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (std::size_t r = 0; r < shares.size(); ++r) {
      // Nobody has more than one beyond its part, unless its part is less than one.
      CHECK(static_cast<double>(shares[r]) <
            1.000001 + static_cast<double>(samples) * weights[r] / sum);
      CHECK(shares[r] >= 1);
    }
  }
}

TEST_CASE("shares are read from a snapshot where they fit the world", "[balance]") {
  CHECK(shares_text({12, 4}) == "12,4");
  CHECK(shares_from("12,4", 16, 2) == Shares{12, 4});
  for (const auto* text : {"", "16", "12,4,0", "8,8,", "12,5", "12;4", "a,4", "-12,4", "17,4",
                           "99999999999999999999,1", "15,1x"}) {
    CHECK(shares_from(text, 16, 2).empty());
  }
}

}  // namespace ddp
