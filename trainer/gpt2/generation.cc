#include "trainer/gpt2/generation.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

#include "ddp/snapshot.h"
#include "trainer/adamw.h"
#include "trainer/gpt2/gpt2_state.h"
#include "trainer/gpt2/model.h"
#include "trainer/uniform.h"

namespace ddp {
namespace {

/// Keeps what is drawn here apart from the weights.
constexpr std::uint64_t kSampleSeed = 0x73616D706C65;  // "sample"

}  // namespace

std::int32_t sample_token(std::span<const float> logits, double temperature, std::size_t top_k,
                          double uniform) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const std::size_t kept = temperature == 0 ? 1
                           : top_k == 0     ? order.size()
                                            : std::min(top_k, order.size());
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(kept);
  std::partial_sort(order.begin(), end, order.end(), [&](std::int32_t a, std::int32_t b) {
    const float left = logits[static_cast<std::size_t>(a)];
    const float right = logits[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
  });
  if (kept == 1) {
    return order.front();
  }
  std::vector<double> room;
  for (auto token = order.begin(); token != end; ++token) {
    const double below = static_cast<double>(logits[static_cast<std::size_t>(*token)]) -
                         static_cast<double>(logits[static_cast<std::size_t>(order.front())]);
    room.push_back(std::exp(below / temperature));
  }
  double left = uniform * std::accumulate(room.begin(), room.end(), 0.0);
  for (std::size_t i = 0; i < kept; ++i) {
    left -= room[i];
    if (left < 0) {
      return order[i];
    }
  }
  return order[kept - 1];  // what rounding left over
}

/// Without a cache of keys and values: each token runs the whole window again. That is simple, and
/// fast enough to look at what a small model has learnt.
void generate_gpt2(const Context& context, const Gpt2Options& options, const Gpt2Config& config,
                   const Tokenizer& tokenizer) {
  const std::size_t window = static_cast<std::size_t>(
      options.sequence_length.value_or(static_cast<std::int64_t>(config.context)));
  Gpt2 model(config, 1, window);
  const AdamW optimizer(model.parameters(), cpu_layers(), {});
  Snapshot snapshot(context, {.path = options.snapshot_path(), .read_only = true, .say = {}});
  if (!snapshot.load(describe(config),
                     gpt2_state_tensors(model.parameters(),
                                        named_state(model.parameters(), optimizer.state())))) {
    throw DoNotRetry("there is no snapshot in " + options.snapshot_path() +
                     "; train first, or name another --save-dir and --experiment-name");
  }
  if (context.rank() != 0) {
    return;
  }
  std::vector<std::int32_t> tokens = tokenizer.encode(*options.generate);
  const auto end_of_text = tokenizer.end_of_text();
  if (tokens.empty()) {
    // What a text begins after.
    tokens.push_back(end_of_text.value_or(0));
  }
  std::fputs(options.generate->c_str(), stdout);
  Uniform random(options.seed ^ kSampleSeed);
  for (std::int64_t i = 0; i < options.sampling.length; ++i) {
    const std::size_t seen = std::min(tokens.size(), window);
    const auto logits = model.next_logits(std::span(tokens).last(seen));
    const std::int32_t token = sample_token(logits, options.sampling.temperature,
                                            static_cast<std::size_t>(options.sampling.top_k),
                                            static_cast<double>(random.next()));
    if (token == end_of_text) {
      break;
    }
    tokens.push_back(token);
    std::fputs(tokenizer.decode(std::span(&token, 1)).c_str(), stdout);
  }
  std::fputs("\n", stdout);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw DoNotRetry(
        "stdout cannot be written to, and the text is not whole there; make room, "
        "or write it to another place");
  }
}

}  // namespace ddp
