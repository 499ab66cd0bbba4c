#include "trainer/metrics/progress_text.h"

#include <catch2/catch.hpp>
#include <limits>

namespace ddp {
namespace {

ProgressView some_view() {
  return {.step = 420,
          .total_steps = 1000,
          .epoch = 2,
          .loss = 1.23456,
          .learning_rate = 3e-4,
          .units_per_second = 19900.4,
          .unit = "tokens",
          .seconds_left = 192.4};
}

}  // namespace

TEST_CASE("a wide terminal shows the bar and all figures", "[metrics]") {
  CHECK(bar_text(some_view(), 120) ==
        " 42% [################........................] 420/1000 | loss 1.2346 | lr 3.00e-04 | "
        "19,900 tokens/s | 0:03:12 left");
}

TEST_CASE("a narrow terminal loses the bar first, then the figures from the right", "[metrics]") {
  const auto view = some_view();
  CHECK(bar_text(view, 85) ==
        " 42% 420/1000 | loss 1.2346 | lr 3.00e-04 | 19,900 tokens/s | 0:03:12 left");
  CHECK(bar_text(view, 65) == " 42% 420/1000 | loss 1.2346 | lr 3.00e-04 | 19,900 tokens/s");
  CHECK(bar_text(view, 30) == " 42% 420/1000 | loss 1.2346");
  CHECK(bar_text(view, 8) == " 42% 420");
}

TEST_CASE("the bar is never wider than the terminal", "[metrics]") {
  auto view = some_view();
  for (const std::int64_t step : {0L, 1L, 999L, 1000L, 2000L}) {
    view.step = step;
    for (std::size_t columns = 0; columns < 200; ++columns) {
      INFO(step << " in " << columns);
      CHECK(bar_text(view, columns).size() <= columns);
    }
  }
}

TEST_CASE("100% is shown when all steps are done, not before", "[metrics]") {
  auto view = some_view();
  view.step = 999;
  CHECK(bar_text(view, 120).starts_with(" 99% [#######################################.] "));
  view.step = 1000;
  CHECK(bar_text(view, 120).starts_with("100% [########################################] "));
}

TEST_CASE("without a known end there is no bar", "[metrics]") {
  auto view = some_view();
  view.total_steps = 0;
  view.seconds_left.reset();
  CHECK(bar_text(view, 120) == "420 | loss 1.2346 | lr 3.00e-04 | 19,900 tokens/s");
}

TEST_CASE("a plain line has step, epoch and figures", "[metrics]") {
  CHECK(log_text(some_view()) ==
        "step 420/1000 | epoch 2 | loss 1.2346 | lr 3.00e-04 | 19,900 tokens/s | 0:03:12 left");
}

TEST_CASE("rates have separators, and small ones a digit more", "[metrics]") {
  auto view = some_view();
  const auto shown = [&view](double rate) {
    view.units_per_second = rate;
    return bar_text(view, 200).find(" | " + std::string(rate < 100 ? "7.3" : "1,234,568") +
                                    " tokens/s") != std::string::npos;
  };
  CHECK(shown(7.26));
  CHECK(shown(1234567.8));
  view.units_per_second = std::numeric_limits<double>::infinity();
  CHECK(log_text(view).find("| inf tokens/s") != std::string::npos);
}

TEST_CASE("durations are hours, minutes and seconds", "[metrics]") {
  CHECK(duration_text(0) == "0:00:00");
  CHECK(duration_text(59.6) == "0:01:00");
  CHECK(duration_text(3600 * 123 + 61) == "123:01:01");
  CHECK(duration_text(-1) == "?");
  CHECK(duration_text(std::numeric_limits<double>::quiet_NaN()) == "?");
  CHECK(duration_text(1e18) == "?");
}

}  // namespace ddp
