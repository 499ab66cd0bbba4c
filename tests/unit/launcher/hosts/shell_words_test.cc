#include "launcher/hosts/shell_words.h"

#include <catch2/catch.hpp>

using namespace ddprun;

namespace {

using Words = std::vector<std::string>;

Words split(const std::string& text) {
  const auto words = split_shell_words(text, "X");
  return words ? *words : Words{words.error().sentence()};
}

}  // namespace

TEST_CASE("Words are split and quoted as in a shell, and nothing is expanded",
          "[launcher][hosts]") {
  CHECK(split("ssh") == Words{"ssh"});
  CHECK(split("  ssh -p  2222\t-i 'my key' ") == Words{"ssh", "-p", "2222", "-i", "my key"});
  CHECK(split(R"(a "b c" d\ e 'f\' "g\"\$\h" '' i"j"'k')") ==
        Words{"a", "b c", "d e", "f\\", "g\"$\\h", "", "ijk"});
  CHECK(split("ssh -i ~/$HOME *") == Words{"ssh", "-i", "~/$HOME", "*"});
  CHECK(split("a \\") == Words{"a", "\\"});
}

TEST_CASE("A quote without an end, and a text without a program, are errors", "[launcher][hosts]") {
  CHECK(split("ssh 'a") == Words{"X: a ' in 'ssh 'a' does not end; close the quote"});
  CHECK(split("ssh \"a\\\"") == Words{"X: a \" in 'ssh \"a\\\"' does not end; close the quote"});
  CHECK(split(" ") == Words{"X: ' ' names no program; write for example 'ssh -p 2222'"});
  CHECK(split("'' a") == Words{"X: ''' a' names no program; write for example 'ssh -p 2222'"});
}

TEST_CASE("A quoted word is one word of a shell again", "[launcher][hosts]") {
  for (const std::string word : {"a", "a b", "it's", "", "$(x) \\ \"q\""}) {
    CHECK(split("p " + shell_quoted(word)) == Words{"p", word});
  }
}
