#include "trainer/gpt2/gpt2_options.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>

#include "trainer/gpt2/config.h"
#include "trainer/number_option.h"

namespace ddp {
namespace {

/// A folder's contents are looked at later: a mistake in them is one of the data, not of the words.
CLI::Validator model_name() {
  return CLI::Validator(
      [](std::string& text) {
        return gpt2_config(text, 1) || std::filesystem::is_directory(text)
                   ? std::string()
                   : "must be one of " + gpt2_config_names() + ", or a Hugging Face folder, not '" +
                         text + "'";
      },
      "");
}

CLI::Validator precision_name() {
  return CLI::Validator(
      [](std::string& text) {
        return text == "f32" || text == "bf16" ? std::string()
                                               : "must be f32 or bf16, not '" + text + "'";
      },
      "");
}

CLI::Validator count_from_0() {
  return number_that<std::int64_t>("a whole number from 0 to 10^12",
                                   [](std::int64_t n) { return n >= 0 && n <= kCountMax; });
}

/// By words, as PyTorch's dtypes are told apart: "32" could be a batch size in the wrong place.
void add_precision(CLI::App& gpt2, Gpt2Options& options) {
  gpt2.add_option_function<std::string>(
          "--precision",
          [&options](const std::string& name) {
            options.precision = name == "bf16" ? Precision::bf16 : Precision::f32;
          },
          "f32, or bf16: faster products, where the device has them [bf16 on GPUs, f32 on CPUs]")
      ->type_name("NAME")
      ->check(precision_name());
}

/// Every number has its bounds here, so that a mistake is one sentence before any rank starts.
void add_training(CLI::App& gpt2, Gpt2Options& options) {
  const auto above_0 =
      number_that<double>("a number above 0", [](double x) { return x > 0 && std::isfinite(x); });
  const auto from_0 = number_that<double>("a number of at least 0",
                                          [](double x) { return x >= 0 && std::isfinite(x); });
  const auto share =
      number_that<double>("a number from 0 to below 1", [](double x) { return x >= 0 && x < 1; });
  const auto seed = number_that<std::uint64_t>("a whole number from 0 to 2^64 - 1",
                                               [](std::uint64_t) { return true; });
  const auto number = [&gpt2](const std::string& name, auto& value, const std::string& what,
                              const CLI::Validator& check) {
    return gpt2.add_option(spellings(name), value, what)->type_name("N")->check(check);
  };
  number("--num-epochs", options.num_epochs, "Epochs to train in all", count_from_1())
      ->capture_default_str();
  number("--max-steps", options.max_steps, "Steps to train at most, of all epochs", count_from_1());
  number("--lr", options.learning_rate,
         "Highest learning rate [0.002 for tiny, 0.001 for 10m, 0.0006 for 124m and less above]",
         above_0)
      ->type_name("X");
  number("--warmup-steps", options.warmup_steps,
         "Steps in which the rate rises; then it falls along a cosine to a tenth", count_from_0())
      ->capture_default_str();
  number("--batch-size,-b", options.batch_size, "Sequences per rank and micro-step", count_from_1())
      ->capture_default_str();
  number("--accumulation", options.accumulation, "Micro-steps whose gradients make one step",
         count_from_1())
      ->capture_default_str();
  number("--weight-decay", options.adamw.weight_decay, "Of AdamW, for matrices and embeddings",
         from_0)
      ->type_name("X")
      ->capture_default_str();
  number("--clip", options.adamw.clip, "Highest norm of the gradient; 0: not clipped", from_0)
      ->type_name("X")
      ->capture_default_str();
  number("--log-freq", options.outputs.log_freq, "Steps from one line of progress to the next",
         count_from_1())
      ->capture_default_str();
  number("--ckpt-freq", options.snapshots.ckpt_freq, "Steps from one snapshot to the next",
         count_from_1())
      ->capture_default_str();
  number("--keep", options.snapshots.keep,
         "Snapshots kept, the newest ones: 2 leave one to fall back on", keep_count())
      ->type_name("K")
      ->capture_default_str();
  number("--validation-share", options.validation_share,
         "Part of the samples, at the text's end, that is measured and not trained on", share)
      ->type_name("X")
      ->capture_default_str();
  gpt2.add_option("--export", options.outputs.export_dir,
                  "At the end, the weights as a folder that Hugging Face's transformers loads")
      ->type_name("DIR")
      ->check(some_path());
  gpt2.add_option("--metrics", options.outputs.metrics,
                  "Each rank writes each step's loss and times to DIR/rank-N.jsonl")
      ->type_name("DIR")
      ->check(some_path());
  gpt2.add_option("--tensorboard", options.outputs.tensorboard,
                  "Each rank writes TensorBoard's event files to DIR/<experiment>/rank-N")
      ->type_name("DIR")
      ->check(some_path());
  number("--seed", options.seed, "Of the first weights, the order of samples, generated text", seed)
      ->capture_default_str();
}

/// All need --generate: given with --data they would be without effect, and nothing would say so.
/// The same holds for outputs of a training that are given with --generate.
void add_generation(CLI::App& gpt2, Gpt2Options& options, CLI::Option* data) {
  auto* generate = gpt2.add_option("--generate", options.generate,
                                   "Continues this text by the newest snapshot; trains nothing");
  generate->type_name("TEXT")->excludes(data);
  for (const char* output : {"--export", "--metrics", "--tensorboard"}) {
    generate->excludes(gpt2.get_option(output));
  }
  gpt2.add_option("--length", options.sampling.length, "Tokens to generate")
      ->type_name("N")
      ->check(count_from_1())
      ->needs(generate)
      ->capture_default_str();
  gpt2.add_option("--temperature", options.sampling.temperature, "0: always the likeliest token")
      ->type_name("X")
      ->check(number_that<double>("a number of at least 0",
                                  [](double x) { return x >= 0 && std::isfinite(x); }))
      ->needs(generate)
      ->capture_default_str();
  gpt2.add_option(spellings("--top-k"), options.sampling.top_k,
                  "Only the K likeliest tokens; 0: all")
      ->type_name("K")
      ->check(count_from_0())
      ->needs(generate)
      ->capture_default_str();
}

}  // namespace

std::string Gpt2Options::snapshot_path() const {
  return snapshots.save_dir + "/" + experiment_name;
}

double Gpt2Options::rate(std::size_t channels) const {
  if (learning_rate) {
    return *learning_rate;
  }
  return channels <= 128    ? 2e-3
         : channels <= 384  ? 1e-3
         : channels <= 768  ? 6e-4
         : channels <= 1024 ? 3e-4
                            : 2e-4;
}

void add_gpt2(CLI::App& app, Gpt2Options& options) {
  auto* gpt2 = app.add_subcommand(
      "gpt2", "A GPT-2 on text, trained by AdamW; or, with --generate, text from a trained one.");
  auto* data = gpt2->add_option("--data", options.data,
                                "Files to train on: text, .json or .jsonl in Alpaca's form, or "
                                ".bin with tokens");
  data->type_name("FILE")->check(some_path());
  gpt2->add_option("--tokenizer", options.tokenizer,
                   "Folder or file of a byte-pair tokenizer [the model folder's, else bytes]")
      ->type_name("PATH")
      ->check(CLI::Validator(CLI::ExistingPath).description(""));  // the help says PATH already
  gpt2->add_option("--model,-m", options.model,
                   "Size: " + gpt2_config_names() + "; or a Hugging Face folder of a GPT-2")
      ->type_name("NAME")
      ->check(model_name())
      ->capture_default_str();
  gpt2->add_option(spellings("--experiment-name") + ",-e", options.experiment_name,
                   "Snapshots are in --save-dir under this name; training goes on from the newest")
      ->type_name("NAME")
      ->check(folder_name())
      ->capture_default_str();
  gpt2->add_option(spellings("--save-dir"), options.snapshots.save_dir, "Folder of the experiments")
      ->type_name("DIR")
      ->check(some_path())
      ->capture_default_str();
  gpt2->add_option(spellings("--seq-length") + ",-s", options.sequence_length,
                   "Tokens of a sequence [the model's context]")
      ->type_name("N")
      ->check(count_from_1());
  add_training(*gpt2, options);
  add_precision(*gpt2, options);
  add_parallel(*gpt2, options.parallel);
  add_generation(*gpt2, options, data);
  // Checked when all is parsed: one of the two says what to do.
  gpt2->final_callback([&options] {
    if (options.data.empty() && !options.generate) {
      throw CLI::RequiredError("--data or --generate");
    }
    const auto named = gpt2_config(options.model, 1);
    const auto context = named ? static_cast<std::int64_t>(named->context) : 0;
    if (named && options.sequence_length.value_or(1) > context) {
      throw CLI::ValidationError(
          "--seq-length",
          fmt::format("must be at most {}, the context of {}", context, options.model));
    }
  });
}

}  // namespace ddp
