// scenario_test FILE... : plays the scenarios, and compares what follows with what they say.
// scenario_test --rewrite FILE... : writes what follows into them.
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>

#include "tests/sim/scenario.h"

namespace {

std::string content_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The first line that differs.
void tell_difference(const std::string& file, const std::string& told, const std::string& played) {
  std::istringstream one(told);
  std::istringstream other(played);
  std::string before;
  std::string after;
  for (int line = 1; one || other; ++line) {
    before = after = "(the end)";
    std::getline(one, before);
    std::getline(other, after);
    if (before != after) {
      std::cout << file << ":" << line << ": this is told: " << before
                << "\nand this happens: " << after << "\n";
      return;
    }
  }
}

/// False: something else happens than the file says.
bool check(const std::string& file, bool rewrite) {
  const std::string told = content_of(file);
  const ddprun::sim::Played played = ddprun::sim::play(told);
  if (told.empty() || !played.error.empty()) {
    std::cout << file << ": " << (told.empty() ? "there is no such file" : played.error) << "\n"
              << played.text;
    return false;
  }
  if (told == played.text) {
    return true;
  }
  if (rewrite) {
    std::ofstream(file) << played.text;
    return true;
  }
  tell_difference(file, told, played.text);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  bool rewrite = false;
  bool fine = argc > 1;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--rewrite") {
      rewrite = true;
    } else {
      fine = check(argv[i], rewrite) && fine;
    }
  }
  return fine ? 0 : 1;
}
