#include "trainer/parallel_options.h"

#include <CLI/CLI.hpp>
#include <string>

#include "trainer/number_option.h"

namespace ddp {
namespace {

/// A word of its own for each sentence: CLI11's set of words answers with an expression.
CLI::Validator compression_name() {
  return CLI::Validator(
      [](std::string& text) {
        return text == "none" || text == "bf16" ? std::string()
                                                : "must be none or bf16, not '" + text + "'";
      },
      "");
}

}  // namespace

void add_parallel(CLI::App& app, ParallelOptions& options) {
  app.add_option_function<std::string>(
         spellings("--grad-compression"),
         [&options](const std::string& name) {
           options.compression = name == "bf16" ? Compression::bf16 : Compression::none;
         },
         "How gradients travel: none, or as bf16, half the bytes [none]")
      ->type_name("NAME")
      ->check(compression_name());
  app.add_flag("--zero", options.zero,
               "Each rank keeps a part of the optimizer's state: the same weights, less memory");
}

}  // namespace ddp
