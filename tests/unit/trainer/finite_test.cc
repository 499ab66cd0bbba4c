#include "trainer/finite.h"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

namespace ddp {

TEST_CASE("one infinity or NaN anywhere makes a tensor not finite", "[finite]") {
  constexpr float kBad[] = {std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
  // Longer than the widest vector, and no multiple of it.
  for (const std::size_t count : {1, 7, 16, 67}) {
    std::vector<float> values(count, std::numeric_limits<float>::max());
    CHECK(is_finite(Tensor::from(values)));
    for (std::size_t at = 0; at < count; ++at) {
      const float bad = kBad[at % 3];
      values[at] = bad;
      CHECK_FALSE(is_finite(Tensor::from(values)));
      CHECK_FALSE(is_finite(Tensor::from(std::vector<double>(values.begin(), values.end()))));
      std::vector<BFloat16> halves(count, BFloat16(1.0F));
      CHECK(is_finite(Tensor::from(halves)));
      halves[at] = BFloat16(bad);
      CHECK_FALSE(is_finite(Tensor::from(halves)));
      values[at] = -0.0F;
    }
  }
  CHECK(is_finite(Tensor::zeros({0})));
  CHECK(is_finite(Tensor::from(std::vector<std::int64_t>{-1, 0x7f800000})));
}

TEST_CASE("the first tensor that is not finite is named", "[finite]") {
  const std::vector<NamedTensor> tensors = {
      {"good", Tensor::zeros({3})},
      {"bad", Tensor::from({1.0F, std::numeric_limits<float>::quiet_NaN()})}};
  REQUIRE(first_not_finite(tensors) != nullptr);
  CHECK(first_not_finite(tensors)->name == "bad");
  CHECK(first_not_finite(std::span(tensors).first(1)) == nullptr);
}

}  // namespace ddp
