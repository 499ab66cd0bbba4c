// What rank 0 shows of a step: a progress bar of one line, or a plain line. Pure, ASCII only, so
// that the bytes of a text are its columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace ddp {

struct ProgressView {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;  ///< 0: not known
  std::int64_t epoch = 0;
  double loss = 0;
  double learning_rate = 0;
  double units_per_second = 0;
  std::string unit;  ///< "tokens", "samples"
  std::optional<double> seconds_left;
};

/// " 42% [####....] 420/1000 | loss 1.2345 | lr 3.00e-04 | 19,900 tokens/s | 0:03:12 left". Never
/// wider than `columns`: the bar goes first, then the parts from the right, then the rest is cut.
std::string bar_text(const ProgressView& view, std::size_t columns);

/// "step 420/1000 | epoch 2 | loss 1.2345 | lr 3.00e-04 | 19,900 tokens/s | 0:03:12 left".
std::string log_text(const ProgressView& view);

/// "0:03:12"; hours are not cut at 24. Negative or not finite: "?".
std::string duration_text(double seconds);

}  // namespace ddp
