#include "worker_runtime/collectives/reduction.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace ddp {
namespace {

template <class T>
std::vector<T> reduced(ReduceOp op, const std::vector<std::vector<T>>& parts) {
  std::vector<const void*> pointers;
  for (const auto& part : parts) {
    pointers.push_back(part.data());
  }
  std::vector<T> out(parts[0].size());
  reduce_parts(dtype_of<T>, op, out.data(), pointers, out.size());
  return out;
}

float rounded(float value) {
  return static_cast<float>(BFloat16(value));
}

}  // namespace

TEST_CASE("parts are reduced from left to right, whatever the length", "[worker_runtime]") {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1e6F, 1e6F);
  for (const std::size_t count : {0, 1, 7, 1023, 1024, 1025, 5000}) {
    std::vector<std::vector<float>> parts(5, std::vector<float>(count));
    for (auto& part : parts) {
      for (float& value : part) {
        value = uniform(random);
      }
    }
    const auto sums = reduced(ReduceOp::sum, parts);
    const auto means = reduced(ReduceOp::avg, parts);
    for (std::size_t i = 0; i < count; ++i) {
      const float sum = (((parts[0][i] + parts[1][i]) + parts[2][i]) + parts[3][i]) + parts[4][i];
      REQUIRE(sums[i] == sum);
      REQUIRE(means[i] == sum / 5);
    }
  }
}

TEST_CASE("the result may take the place of any part", "[worker_runtime]") {
  for (std::size_t place = 0; place < 3; ++place) {
    std::vector<std::vector<double>> parts(3, std::vector<double>(2000));
    std::vector<const void*> pointers;
    for (std::size_t p = 0; p < 3; ++p) {
      std::fill(parts[p].begin(), parts[p].end(), std::pow(10, p));
      pointers.push_back(parts[p].data());
    }
    reduce_parts(DType::f64, ReduceOp::sum, parts[place].data(), pointers, 2000);
    CHECK(parts[place] == std::vector<double>(2000, 111));
  }
}

TEST_CASE("minimum, maximum, product and whole numbers", "[worker_runtime]") {
  using Parts = std::vector<std::vector<std::int32_t>>;
  const Parts parts = {{-7, 2}, {3, 2}, {-4, -9}};
  CHECK(reduced(ReduceOp::min, parts) == std::vector<std::int32_t>{-7, -9});
  CHECK(reduced(ReduceOp::max, parts) == std::vector<std::int32_t>{3, 2});
  CHECK(reduced(ReduceOp::product, parts) == std::vector<std::int32_t>{84, -36});
  CHECK(reduced(ReduceOp::avg, parts) == std::vector<std::int32_t>{-2, -1});  // towards zero
}

TEST_CASE("bf16 is summed in f32 and rounded once", "[worker_runtime]") {
  // 256 + 1 is no bf16: added one by one in bf16 the ones would be lost.
  std::vector<std::vector<BFloat16>> parts = {{BFloat16(256.0F)}};
  for (int i = 0; i < 8; ++i) {
    parts.push_back({BFloat16(1.0F)});
  }
  CHECK(static_cast<float>(reduced(ReduceOp::sum, parts)[0]) == 264);
  CHECK(static_cast<float>(reduced(ReduceOp::max, parts)[0]) == 256);
  CHECK(static_cast<float>(reduced(ReduceOp::avg, parts)[0]) == rounded(264.0F / 9));
}

TEST_CASE("a float becomes the nearest bf16, of two the even one", "[worker_runtime]") {
  CHECK(rounded(1.0F) == 1.0F);
  CHECK(rounded(1.0F + 0x1p-8F) == 1.0F);               // half way, to the even one below
  CHECK(rounded(1.0F + 0x1.8p-7F) == 1.0F + 0x1p-6F);   // half way, to the even one above
  CHECK(rounded(1.0F + 0x1.02p-8F) == 1.0F + 0x1p-7F);  // beyond half way
  CHECK(rounded(-1.0F - 0x1.02p-8F) == -1.0F - 0x1p-7F);
  CHECK(rounded(0x1p-133F) == 0x1p-133F);  // the smallest that is not 0
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(rounded(std::numeric_limits<float>::max()) == infinity);
  CHECK(rounded(-infinity) == -infinity);
  CHECK(std::signbit(rounded(-0.0F)));
  CHECK(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::isnan(rounded(std::bit_cast<float>(0x7f800001U))));  // its bits are all below
}

}  // namespace ddp
