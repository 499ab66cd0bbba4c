// Options of `train gpt2`: what the command line says, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/adamw.h"
#include "trainer/layers/layers.h"
#include "trainer/parallel_options.h"

namespace CLI {
class App;
}

namespace ddp {

/// How text is generated.
struct Gpt2Sampling {
  std::int64_t length = 200;  ///< tokens, at most
  double temperature = 0.8;   ///< 0: always the likeliest
  std::int64_t top_k = 40;    ///< 0: all tokens
};

/// What a run tells and leaves beside its snapshots.
struct Gpt2Outputs {
  std::int64_t log_freq = 100;
  std::optional<std::string> export_dir;   ///< of a Hugging Face folder with the final weights
  std::optional<std::string> metrics;      ///< folder of the JSON lines (docs/metrics.md)
  std::optional<std::string> tensorboard;  ///< folder of TensorBoard's event files
};

/// Where snapshots go, how often, and how many stay.
struct Gpt2Snapshots {
  std::string save_dir = "outputs";
  std::int64_t ckpt_freq = 500;  ///< steps from one to the next
  int keep = 2;                  ///< the newest ones; at least 1
};

struct Gpt2Options {
  std::vector<std::string> data;
  /// May be another one in each run: what is saved is f32 in both.
  Precision precision = Precision::automatic;
  std::string model = "tiny";            ///< a size's name, or a Hugging Face folder
  std::optional<std::string> tokenizer;  ///< folder or file of a byte-pair tokenizer
  std::string experiment_name = "gpt2";
  Gpt2Snapshots snapshots;
  std::uint64_t seed = 0;
  std::int64_t num_epochs = 100;
  std::optional<std::int64_t> max_steps;
  /// Not given: what suits the model's size (rate()).
  std::optional<double> learning_rate;
  std::int64_t batch_size = 8;    ///< sequences per rank and micro-step
  std::int64_t accumulation = 1;  ///< micro-steps per step
  /// Not given: the model's context.
  std::optional<std::int64_t> sequence_length;
  std::int64_t warmup_steps = 100;
  AdamWOptions adamw;
  double validation_share = 0.1;
  ParallelOptions parallel;
  Gpt2Outputs outputs;

  /// With it nothing is trained: this text is continued.
  std::optional<std::string> generate;
  Gpt2Sampling sampling;

  /// Where the snapshots are: save_dir/experiment_name.
  [[nodiscard]] std::string snapshot_path() const;
  /// learning_rate, or the largest that was stable for this many channels (GPT-3's table 2.1 for
  /// OpenAI's sizes).
  [[nodiscard]] double rate(std::size_t channels) const;
};

/// Adds the subcommand `gpt2`, which fills `options`.
void add_gpt2(CLI::App& app, Gpt2Options& options);

}  // namespace ddp
