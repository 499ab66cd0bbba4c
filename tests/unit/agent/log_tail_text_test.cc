#include "agent/operations/log_tail_text.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

using ddprun::kLogTailLineBytesMax;
using ddprun::log_tail_text;
using ddprun::StreamTail;

TEST_CASE("the last lines of all streams have the name of their stream before them", "[agent]") {
  CHECK(log_tail_text({}, 9).empty());
  CHECK(log_tail_text({{0, "stdout", ""}, {3, "stderr", "one\n\ntwo"}}, 9) ==
        "[rank 3 stderr] one\n[rank 3 stderr] two\n");
}

TEST_CASE("of too many lines each stream keeps its newest, and short ones make room", "[agent]") {
  const StreamTail loud{0, "stdout", "1\n2\n3\n4\n5\n6\n7\n8\n"};
  const StreamTail quiet{1, "stdout", "a\n"};
  CHECK(log_tail_text({loud, quiet}, 4) ==
        "[rank 0 stdout] 6\n[rank 0 stdout] 7\n[rank 0 stdout] 8\n[rank 1 stdout] a\n");
  CHECK(log_tail_text({loud, quiet}, 1) == "[rank 0 stdout] 8\n");
  CHECK(log_tail_text({loud, quiet}, 0).empty());
}

TEST_CASE("a line of the log is short and moves no cursor", "[agent]") {
  const std::string umlaut = "\xc3\xa4";
  const std::string line(kLogTailLineBytesMax - 1, 'x');
  const std::string text = log_tail_text({{0, "stderr", line + umlaut + "more\n"}}, 9);
  CHECK(text == "[rank 0 stderr] " + line + "\n");  // the cut is before the character
  CHECK(log_tail_text({{0, "stderr",
                        "a\tb\x7f\xc2\x9b"
                        "c\n"}},
                      9) == "[rank 0 stderr] a?b??c\n");
}
