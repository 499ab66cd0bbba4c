#include "trainer/parallel_options.h"

#include <CLI/CLI.hpp>
#include <optional>
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

/// "auto", or numbers above 0 with commas between them; none for any other text.
std::optional<BalanceChoice> balance_from(const std::string& text) {
  BalanceChoice choice;
  if (text == "auto") {
    choice.automatic = true;
    return choice;
  }
  if (text.empty() || text.back() == ',') {
    return std::nullopt;
  }
  for (const std::string& part : CLI::detail::split(text, ',')) {
    const auto weight = number_in<double>(part);
    // Within bounds in which neither a sum nor a ratio of weights leaves those of a double.
    if (!weight || !(*weight >= 1e-6 && *weight <= 1e6)) {
      return std::nullopt;
    }
    choice.weights.push_back(*weight);
  }
  return choice;
}

CLI::Validator balance_text() {
  return CLI::Validator(
      [](std::string& text) {
        return balance_from(text)
                   ? std::string()
                   : "must be auto, or a weight for each rank such as 3,1, each from "
                     "0.000001 to 1000000, not '" +
                         text + "'";
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
  app.add_option_function<std::string>(
         "--balance",
         [&options](const std::string& text) { options.balance = balance_from(text).value(); },
         "Ranks' shares of each step's samples: by speed (auto), or by weights as 3,1 [equal]")
      ->type_name("WEIGHTS")
      ->check(balance_text());
  app.add_flag("--zero", options.zero,
               "Each rank keeps a part of the optimizer's state: the same weights, less memory");
}

}  // namespace ddp
