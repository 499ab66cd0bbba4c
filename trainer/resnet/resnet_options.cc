#include "trainer/resnet/resnet_options.h"

#include <CLI/CLI.hpp>

#include "trainer/number_option.h"

namespace ddp {
namespace {

/// Nothing that is counted here may be 0: no steps, no epochs and no images are no training.
CLI::Option* add_count(CLI::App& app, const std::string& names, std::int64_t& value,
                       const std::string& help) {
  return app.add_option(names, value, help)
      ->type_name("N")
      ->check(count_from_1())
      ->capture_default_str();
}

/// By comparisons that are false for NaN: it is no number of any of these kinds.
void add_learning(CLI::App& app, ResnetOptions& options) {
  const auto rate = number_that<double>("a number above 0 and at most 1000000",
                                        [](double x) { return x > 0 && x <= 1e6; });
  const auto below_1 =
      number_that<double>("a number from 0 to below 1", [](double x) { return x >= 0 && x < 1; });
  const auto seed = number_that<std::int64_t>("a whole number from 0 to 2^63 - 1",
                                              [](std::int64_t n) { return n >= 0; });
  app.add_option("--lr", options.learning_rate, "First learning rate; it falls along a cosine")
      ->type_name("X")
      ->check(rate)
      ->capture_default_str();
  app.add_option("--momentum", options.momentum, "Momentum of SGD, below 1")
      ->type_name("X")
      ->check(below_1)
      ->capture_default_str();
  app.add_option("--weight-decay,--weight_decay", options.weight_decay,
                 "Share of each weight that is added to its gradient")
      ->type_name("X")
      ->check(below_1)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the first weights, order and augmentation")
      ->type_name("N")
      ->check(seed)
      ->capture_default_str();
}

/// Places are tried when the training begins, and not here: --help must not touch a disk.
void add_output(CLI::App& app, ResnetOptions& options) {
  app.add_option("--snapshot-path,--snapshot_path,--save-dir", options.snapshot_path,
                 "Directory of the snapshots; training goes on from the newest")
      ->type_name("DIR")
      ->check(some_path())
      ->capture_default_str();
  add_count(app, "--ckpt-freq,--checkpoint-frequency", options.checkpoint_every,
            "Save a snapshot after so many steps, and after each epoch");
  app.add_option("--keep", options.keep,
                 "Snapshots kept, the newest ones: 2 leave one to fall back on")
      ->type_name("K")
      ->check(keep_count())
      ->capture_default_str();
  add_count(app, "--log-freq,--log-frequency", options.log_every,
            "Steps per line of output and per point of a curve");
  app.add_option("-e,--experiment-name", options.experiment, "Its name in metrics and curves")
      ->type_name("NAME")
      ->check(folder_name())
      ->capture_default_str();
  app.add_option("--metrics", options.metrics, "Write each step as a line of JSON here, per rank")
      ->type_name("DIR")
      ->check(some_path());
  app.add_option("--tensorboard", options.tensorboard, "Write event files of TensorBoard here")
      ->type_name("DIR")
      ->check(some_path());
}

}  // namespace

/// Named as those of `linear` and `gpt2` where they mean the same.
void add_resnet(CLI::App& app, ResnetOptions& options) {
  auto* resnet = app.add_subcommand(
      "resnet",
      "ResNet on CIFAR-10's binary files, by SGD on the cross-entropy; on CPUs, or GPUs in bf16.");
  resnet->add_option("--data", options.data, "Folder with data_batch_1.bin, ..., test_batch.bin")
      ->required()
      ->type_name("DIR")
      ->check(some_path());
  resnet->add_option("--model", options.model, "Layers: 18 or 50")
      ->type_name("N")
      ->check(number_that<int>("18 or 50", [](int n) { return n == 18 || n == 50; }))
      ->capture_default_str();
  // A bool behind two words: the snapshot's name of the model says which one it was.
  resnet
      ->add_option("--stem", options.large_stem,
                   "small: 3x3 convolution, no pool; large: 7x7 and pool, as for ImageNet [small]")
      ->type_name("NAME")
      ->transform(CLI::Validator(
          [](std::string& text) {
            const bool known = text == "small" || text == "large";
            auto problem = known ? "" : "must be small or large, not '" + text + "'";
            text = text == "large" ? "true" : "false";
            return problem;
          },
          ""));
  add_count(*resnet, "--num-epochs,--epochs", options.epochs, "Epochs to train in all");
  add_count(*resnet, "-b,--batch-size,--batch_size", options.batch_size,
            "Samples per rank and step");
  add_learning(*resnet, options);
  add_parallel(*resnet, options.parallel);
  add_output(*resnet, options);
}

}  // namespace ddp
