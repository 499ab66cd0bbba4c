// CommandLine: the commands of `train` with their options, each bound to the value that it sets.
#pragma once

#include <CLI/CLI.hpp>

#include "trainer/options.h"

namespace ddp {

/// Stays where it is made: the options point into it.
struct CommandLine {
  CommandLine();

  CLI::App app;
  LinearOptions linear;
  Gpt2Options gpt2;
  ResnetOptions resnet;
};

}  // namespace ddp
