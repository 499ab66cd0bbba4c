// Any command line: read or refused with a sentence, never a crash. Words are parted by zero bytes.
#include <string>
#include <vector>

#include "launcher/options.h"
#include "tests/fuzz/input.h"

using namespace ddprun;
using namespace ddprun::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  std::vector<std::string> words(1);
  for (const char byte : input.rest()) {
    if (byte == '\0') {
      words.emplace_back();
    } else {
      words.back() += byte;
    }
  }
  std::vector<const char*> pointers;
  for (const auto& word : words) {
    pointers.push_back(word.c_str());
  }
  const auto result = parse_command_line(pointers, [](const char*) { return nullptr; });
  if (const auto* refused = std::get_if<UsageError>(&result)) {
    require(!refused->error.what.empty(), "a refusal has a reason");
    require(refused->exit_code != 0, "a refusal is no success");
  } else {
    const auto& options = std::get<Options>(result);
    require(only_shows_text(options) || options.witness || !options.program.empty(),
            "there is a program to run");
  }
  return 0;
}
