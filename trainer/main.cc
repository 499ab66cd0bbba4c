// train: the models that come with the runtime, on one process or many. Exit status: 0 done, 1 an
// error (one sentence on stderr, and the error file under a launcher), 2 a mistake in the command
// line, 75 left by order (a signal) where no ddprun is told: the same command goes on.
#include <malloc.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/ddp.h"
#include "ddp/preemption.h"
#include "rendezvous/base/standard_streams.h"
#include "trainer/agreement.h"
#include "trainer/dataset.h"
#include "trainer/gpt2/generation.h"
#include "trainer/gpt2/gpt2_export.h"
#include "trainer/gpt2/gpt2_source.h"
#include "trainer/gpt2/gpt2_training.h"
#include "trainer/linear_training.h"
#include "trainer/message_passing.h"
#include "trainer/openmp_wait.h"
#include "trainer/options.h"
#include "trainer/product_kernels.h"
#include "trainer/resnet/cifar.h"
#include "trainer/resnet/resnet_training.h"
#include "trainer/storage_error.h"
#include "trainer/text/documents.h"
#include "trainer/text/token_cache.h"
#include "trainer/threads.h"
#include "trainer/whole_file.h"

namespace ddp {
namespace {

/// The whole file at once: whether a column is numeric is known only after its last row.
Dataset load(const LinearOptions& options) {
  if (!options.data) {
    return toy_dataset(options.seed);
  }
  try {
    return csv_dataset(parse_csv(read_whole_file(*options.data)), *options.target, options.seed);
  } catch (const Error& problem) {
    throw Error(*options.data + ": " + problem.what());
  }
}

/// The data come first. A mistake in them is found without other ranks, so every rank reports it at
/// once, and none waits for a rank that has ended.
int run(const LinearOptions& options) {
  const Dataset data = load(options);
  const Context context = init();
  require_agreement(context, agreed_options(options));
  return train_linear(context, options, data);
}

/// The files' own tokens, or those of their texts, kept beside the snapshots for the next start.
Gpt2Data load(const Context& context, const Gpt2Options& options, const Gpt2Source& source) {
  const std::vector<std::filesystem::path> files(options.data.begin(), options.data.end());
  const bool texts = ending_of(files.front()) != ".bin";
  const auto length =
      options.sequence_length.value_or(static_cast<std::int64_t>(source.config.context));
  return {load_tokens(context, *source.tokenizer,
                      {.files = files,
                       .tokenizer_files = source.tokenizer_files,
                       .vocabulary_size = static_cast<std::int32_t>(source.config.vocabulary),
                       .directory = options.snapshots.save_dir,
                       .say = {}}),
          texts || !source.tokenizer_files.empty() ? source.tokenizer.get() : nullptr,
          {.sequence_length = static_cast<std::size_t>(length),
           .validation_share = options.validation_share,
           .vocabulary_size = static_cast<std::int32_t>(source.config.vocabulary)}};
}

int run(const Gpt2Options& options) {
  const Gpt2Source source = gpt2_source(options);
  // A few tokens are generated on the CPU.
  const Context context = init({.backend = options.generate ? Backend::gloo : Backend::automatic});
  require_agreement(context, agreed_options(options, source));
  const std::string threads = choose_threads(context);
  if (context.device().is_cpu()) {
    make_product_kernels();
  }
  if (options.generate) {
    end_by_signals();
    generate_gpt2(context, options, source.config, *source.tokenizer);
    return 0;
  }
  // Now, since a place that cannot be written to is found too late after weeks of training.
  if (options.outputs.export_dir && context.rank() == 0) {
    require_export_place(*options.outputs.export_dir);
  }
  if (context.device().is_cpu()) {
    say_threads(context, threads);
  }
  const Gpt2Data data = load(context, options, source);
  return train_gpt2(context, options, source, data);
}

int run(const ResnetOptions& options) {
  const CifarData data = read_cifar(options.data);
  const Context context = init();
  require_agreement(context, agreed_options(options));
  return train_resnet(context, options, data);
}

int run(const MessagePassingOptions& options) {
  end_by_signals();
  const Context context = init();
  require_agreement(context, agreed_options(options));
  pass_messages(context);
  return 0;
}

/// Runs `work`. An error of the trainers themselves is about files, options or numbers, and those
/// are the same at the next attempt: a restart would only spend the job's budget. Those of the
/// world round them (a peer, a GPU, a disk) may be over by then.
template <class Work>
int without_vain_restarts(const Work& work) {
  try {
    return work();
  } catch (const OperationError&) {
    throw;
  } catch (const StartError&) {
    throw;
  } catch (const DeviceError&) {
    throw;
  } catch (const StorageError&) {
    throw;
  } catch (const DoNotRetry&) {
    throw;  // with the stack that it came from
  } catch (const Error& problem) {
    throw DoNotRetry(problem.what());
  } catch (const std::bad_alloc&) {
    throw DoNotRetry(no_memory());
  } catch (const std::length_error&) {  // what a vector throws for a size that no machine has
    throw DoNotRetry(no_memory());
  }
}

int train(int argc, char** argv) {
  // Before a file is opened: a snapshot that got the number of a closed stdout would take its
  // lines.
  ddprun::fill_standard_streams();
  // Line by line, in one write each: a launcher follows it, and lines of many ranks do not mix.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  // Writing to a rank that has just died must come back as an error that names it.
  std::signal(SIGPIPE, SIG_IGN);
  // A file size limit is then an error of the write like a full disk, not the worker's death.
  std::signal(SIGXFSZ, SIG_IGN);
  // A large tensor that is freed goes back to the kernel. glibc by itself would keep what one save
  // with --zero has gathered, and so most of what --zero saves.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  const auto parsed = parse_options(argc, argv);
  if (const auto* exit = std::get_if<Exit>(&parsed)) {
    return exit->mistake.empty() ? exit->status : throw DoNotRetry(exit->mistake, exit->status);
  }
  return without_vain_restarts([&parsed] {
    return std::visit([](const auto& options) { return run(options); }, std::get<Command>(parsed));
  });
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) {
  ddp::leave_until_preemption();
  ddp::spin_briefly(argv);
  return ddp::record(argc, argv, ddp::train);
}
