// train: the models that come with the runtime, on one process or many. Exit status: 0 done, 1 an
// error (one sentence on stderr, and the error file under a launcher), 2 a mistake in the command
// line.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "ddp/ddp.h"
#include "trainer/dataset.h"
#include "trainer/gpt2/generation.h"
#include "trainer/gpt2/gpt2_training.h"
#include "trainer/linear_training.h"
#include "trainer/message_passing.h"
#include "trainer/options.h"
#include "trainer/resnet/cifar.h"
#include "trainer/resnet/resnet_training.h"
#include "trainer/text/byte_tokenizer.h"
#include "trainer/threads.h"

namespace ddp {
namespace {

/// The whole file at once: whether a column is numeric is known only after its last row.
std::string read_text(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (file) {
    std::ostringstream whole;
    whole << file.rdbuf();
    // An empty file sets the stream's fail bit, too; reading a directory sets errno.
    if (errno == 0) {
      return std::move(whole).str();
    }
  }
  throw Error("cannot be read: " + std::string(std::strerror(errno)));
}

Dataset load(const LinearOptions& options) {
  if (!options.data) {
    return toy_dataset(options.seed);
  }
  try {
    return csv_dataset(parse_csv(read_text(*options.data)), *options.target, options.seed);
  } catch (const Error& problem) {
    // The next attempt would read the same file: a restart would only spend the job's budget.
    throw DoNotRetry(*options.data + ": " + problem.what());
  }
}

/// The data come first. A mistake in them is found without other ranks, so every rank reports it at
/// once, and none waits for a rank that has ended.
void run(const LinearOptions& options) {
  const Dataset data = load(options);
  const Context context = init();
  train_linear(context, options, data);
}

Gpt2Data load(const Gpt2Options& options, const Tokenizer& tokenizer, std::size_t time) {
  std::vector<std::string> texts;
  for (const std::string& path : options.data) {
    try {
      texts.push_back(read_text(path));
    } catch (const Error& problem) {
      throw DoNotRetry(path + ": " + problem.what());
    }
  }
  try {
    return {texts, tokenizer, time, options.validation_share};
  } catch (const Error& problem) {
    throw DoNotRetry(problem.what());
  }
}

void run(const Gpt2Options& options) {
  const ByteTokenizer tokenizer;
  // The name has been checked with the other options.
  const Gpt2Config config =
      *gpt2_config(options.model, static_cast<std::size_t>(tokenizer.vocabulary_size()));
  if (options.generate) {
    generate_gpt2(init({.backend = Backend::gloo}), options, config, tokenizer);
    return;
  }
  const std::int64_t context_size = static_cast<std::int64_t>(config.context);
  const Gpt2Data data = load(
      options, tokenizer, static_cast<std::size_t>(options.sequence_length.value_or(context_size)));
  const Context context = init({.backend = Backend::gloo});
  choose_threads(context);
  train_gpt2(context, options, config, data);
}

void run(const ResnetOptions& options) {
  const CifarData data = [&options] {
    try {
      return read_cifar(options.data);
    } catch (const Error& problem) {
      throw DoNotRetry(problem.what());  // as above
    }
  }();
  train_resnet(init({.backend = Backend::gloo}), options, data);
}

void run(const MessagePassingOptions& /*options*/) {
  pass_messages(init());
}

int train(int argc, char** argv) {
  // Line by line, in one write each: a launcher follows it, and lines of many ranks do not mix.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  // Writing to a rank that has just died must come back as an error that names it.
  std::signal(SIGPIPE, SIG_IGN);
  // A file size limit is then an error of the write like a full disk, not the worker's death.
  std::signal(SIGXFSZ, SIG_IGN);
  const auto parsed = parse_options(argc, argv);
  if (const auto* exit = std::get_if<Exit>(&parsed)) {
    return exit->status;
  }
  std::visit([](const auto& options) { run(options); }, std::get<Command>(parsed));
  return 0;
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) {
  return ddp::record(argc, argv, ddp::train);
}
