#include "trainer/options.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace ddp {
namespace {

std::variant<Command, Exit> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "train");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

LinearOptions linear(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "linear");
  return std::get<LinearOptions>(std::get<Command>(parse(std::move(arguments))));
}

int status(std::vector<const char*> arguments) {
  return std::get<Exit>(parse(std::move(arguments))).status;
}

}  // namespace

TEST_CASE("the tutorial's command line gives the tutorial's defaults", "[options]") {
  const auto options = linear({"50", "10"});
  CHECK(options.total_epochs == 50);
  CHECK(options.save_every == 10);
  CHECK(options.batch_size == 32);
  CHECK(options.snapshot_path == "snapshot.ddp");
  CHECK(options.keep == 2);
  CHECK_FALSE(options.data);
  CHECK_FALSE(options.learning_rate);
  CHECK(options.seed == 0);
}

TEST_CASE("options are understood in both spellings and any place", "[options]") {
  for (const auto* name : {"--batch-size", "--batch_size"}) {
    CHECK(linear({name, "7", "5", "1"}).batch_size == 7);
    CHECK(linear({"5", "1", name, "7"}).batch_size == 7);
  }
  CHECK(linear({"5", "1", "--snapshot_path", "x"}).snapshot_path == "x");
  CHECK(linear({"5", "1", "--keep", "7"}).keep == 7);
  const auto options = linear({"5", "1", "--data=d.csv", "--target=t", "--lr", "0.5", "--momentum",
                               "0.9", "--seed", "18446744073709551615"});
  CHECK(options.data == "d.csv");
  CHECK(options.target == "t");
  CHECK(options.learning_rate == 0.5);
  CHECK(options.momentum == 0.9);
  CHECK(options.seed == 18446744073709551615U);
}

TEST_CASE("the demo takes no options", "[options]") {
  const auto parsed = parse({"message-passing"});
  CHECK(std::holds_alternative<MessagePassingOptions>(std::get<Command>(parsed)));
}

TEST_CASE("mistakes end with the usage status, help with success", "[options]") {
  CHECK(status({"--help"}) == 0);
  CHECK(status({"linear", "--help"}) == 0);
  const std::vector<std::vector<const char*>> mistakes = {{},
                                                          {"linear"},
                                                          {"linear", "5"},
                                                          {"linear", "0", "1"},
                                                          {"linear", "5", "0"},
                                                          {"linear", "five", "1"},
                                                          {"linear", "5", "1", "2"},
                                                          {"linear", "5", "1", "--batch-size", "0"},
                                                          {"linear", "5", "1", "--lr", "-1"},
                                                          {"linear", "5", "1", "--momentum", "2"},
                                                          {"linear", "5", "1", "--seed", "-1"},
                                                          {"linear", "5", "1", "--data", "x"},
                                                          {"linear", "5", "1", "--target", "x"},
                                                          {"linear", "5", "1", "--no-such-option"},
                                                          {"message-passing", "5"},
                                                          {"gpt"}};
  for (const auto& arguments : mistakes) {
    INFO(arguments.size() << " arguments, the last: "
                          << (arguments.empty() ? "none" : arguments.back()));
    CHECK(status(arguments) == kUsageStatus);
  }
}

TEST_CASE("a mistake is one sentence that names the option", "[options]") {
  const struct {
    std::vector<const char*> arguments;
    std::string sentence;
  } cases[] = {
      {{"foo"}, "the first word must be linear, gpt2, resnet or message-passing; see train --help"},
      {{"gpt2", "--data", "x", "--seed", "99999999999999999999"},
       "--seed: must be a whole number from 0 to 2^64 - 1, not '99999999999999999999'; see train "
       "gpt2 --help"},
      {{"gpt2", "--data", "x", "--lr"}, "--lr needs a value behind it; see train gpt2 --help"},
      {{"gpt2", "--data", "x", "--lr", "1", "--lr", "2"},
       "--lr is given twice; see train gpt2 --help"},
      {{"gpt2", "--data", "x", "--bogus", "3"},
       "there is no option or word '--bogus' in this command; see train gpt2 --help"},
      {{"resnet", "--data", "x", "--lr", "nan"},
       "--lr: must be a number above 0 and at most 1000000, not 'nan'; see train resnet --help"},
      {{"resnet", "--data", "x", "--momentum", "nan"},
       "--momentum: must be a number from 0 to below 1, not 'nan'; see train resnet --help"},
      {{"resnet", "--data", "x", "-e", "a/b"},
       "--experiment-name: must be a name of a new folder, without '/', not 'a/b'; see train "
       "resnet --help"},
      {{"resnet", "--data", "x", "--stem", "tall"},
       "--stem: must be small or large, not 'tall'; see train resnet --help"},
      {{"gpt2", "--data", "x", "--max-steps", "1000000000001"},
       "--max-steps: must be a whole number from 1 to 10^12, not '1000000000001'; see train gpt2 "
       "--help"},
      {{"resnet", "--data", "x", "--keep", "2147483648"},
       "--keep: must be a whole number from 1 to 2^31 - 1, not '2147483648'; see train resnet "
       "--help"},
      {{"gpt2", "--generate", "x", "--export", "y"},
       "--export excludes --generate; see train gpt2 --help"},
      {{"resnet", "--data", "x", "--zero=some"}, "--zero takes no value; see train resnet --help"},
  };
  for (const auto& [arguments, sentence] : cases) {
    CHECK(std::get<Exit>(parse(arguments)).mistake == sentence);
  }
}

TEST_CASE("an empty path is a mistake that names its option", "[options]") {
  const std::vector<const char*> linear = {"linear", "1", "1"};
  const std::vector<const char*> gpt2 = {"gpt2", "--data", "x"};
  const std::vector<const char*> resnet = {"resnet", "--data", "x"};
  const struct {
    const std::vector<const char*>& command;
    const char* option;
  } cases[] = {{linear, "--snapshot-path"}, {linear, "--data"},    {gpt2, "--save-dir"},
               {gpt2, "--export"},          {gpt2, "--metrics"},   {gpt2, "--tensorboard"},
               {resnet, "--snapshot-path"}, {resnet, "--metrics"}, {resnet, "--tensorboard"}};
  for (const auto& [command, option] : cases) {
    auto arguments = command;
    arguments.insert(arguments.end(), {option, ""});
    const auto exit = std::get<Exit>(parse(arguments));
    CHECK(exit.status == kUsageStatus);
    CHECK(exit.mistake == std::string(option) + ": must be a path, not ''; see train " +
                              command.front() + " --help");
  }
  CHECK(status({"gpt2", "--data", ""}) == kUsageStatus);
  CHECK(status({"resnet", "--data", ""}) == kUsageStatus);
}

TEST_CASE("a whole number is decimal and has no zeros in front", "[options]") {
  for (const char* number : {"010", "0x10", "+1", "1.0", "1e3", " 1", "1 "}) {
    CHECK(status({"linear", number, "1"}) == kUsageStatus);
  }
  CHECK(linear({"10", "1", "--seed", "0"}).total_epochs == 10);
}

}  // namespace ddp
