#include "rendezvous/base/error_line.h"

#include <catch2/catch.hpp>
#include <string>

using namespace ddprun;

namespace {

const std::string kValueError =
    "[rank1]: Traceback (most recent call last):\n"
    "[rank1]:   File \"train.py\", line 3, in <module>\n"
    "[rank1]:     raise ValueError('bad batch')\n"
    "[rank1]: ValueError: bad batch\n";
const std::string kGlooError =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 9, in <module>\n"
    "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer\n";

}  // namespace

TEST_CASE("The error of a program is the exception of its traceback, whatever comes after") {
  CHECK(error_line("step 1\n" + kValueError) == "ValueError: bad batch");
  CHECK(error_line(kValueError + "terminate called without an active exception\n") ==
        "ValueError: bad batch");
  CHECK(error_line(kValueError + "terminate called after throwing an instance of 'X'\n" +
                   "  what():  socket\n") == "ValueError: bad batch");
  CHECK(error_line(kGlooError + kValueError) == "ValueError: bad batch");  // the first was handled
}

TEST_CASE("What follows a traceback's frames is an error if it names one") {
  const std::string frames = "Traceback (most recent call last):\n  File \"t.py\", line 3\n";
  for (const char* error :
       {"KeyboardInterrupt", "jobs.f.<locals>.Lost: 3", "Fehlschl\xc3\xa4ge: x"}) {
    CHECK(error_line(frames + error + "\nbye\n") == error);
  }
  // CPython's words where an exception cannot be shown.
  CHECK(error_line("Traceback (most recent call last):\nobject address  : 0x7f\n"
                   "object repr     : ConnectionResetError(104)\nlost sys.stderr\n") ==
        "lost sys.stderr");
}

TEST_CASE("Of exceptions that led to each other the first is the error") {
  const std::string handling =
      "\nDuring handling of the above exception, another exception occurred:\n\n";
  const std::string cause =
      "\nThe above exception was the direct cause of the following exception:\n\n";
  CHECK(error_line(kValueError + handling + kGlooError) == "ValueError: bad batch");
  CHECK(error_line(kGlooError + cause + kValueError + handling + kValueError)
            .starts_with("RuntimeError: [gloo"));
}

TEST_CASE("Of a group of exceptions the group is the error") {
  const std::string text =
      "  + Exception Group Traceback (most recent call last):\n"
      "  |   File \"eg.py\", line 1, in <module>\n"
      "  |     raise ExceptionGroup('several', [ValueError('bad')])\n"
      "  | ExceptionGroup: several (1 sub-exception)\n"
      "  +-+---------------- 1 ----------------\n"
      "    | Traceback (most recent call last):\n"
      "    |   File \"eg.py\", line 2, in f\n"
      "    | ValueError: bad\n"
      "    +------------------------------------\n";
  CHECK(error_line(text) == "ExceptionGroup: several (1 sub-exception)");
  CHECK(ends_in_traceback(text));
  CHECK_FALSE(ends_in_traceback(text + "and more\n"));
  CHECK(error_line(text + "Traceback (most recent call last):\n  File\nKeyError: 'a'\n") ==
        "KeyError: 'a'");
}

TEST_CASE("Without a traceback the error is what C++ says, else the last line") {
  CHECK(error_line("a\nterminate called after throwing an instance of 'E'\n  what():  no room\n"
                   "Aborted\n") == "no room");
  CHECK(error_line("one\n[rank0]: two\n\n") == "two");
  CHECK(error_line("terminate called without an active exception\n") ==
        "terminate called without an active exception");
  CHECK(error_line("Traceback (most recent call last):\n  File \"cut\n") == "File \"cut");
  CHECK(error_line(" \n").empty());
}

TEST_CASE("A text ends in a traceback only if nothing is written after it") {
  CHECK(ends_in_traceback(kValueError));
  CHECK(ends_in_traceback("step 1\n" + kValueError + "\n"));
  CHECK(ends_in_traceback(kValueError + "[rank1]:[W1125 ProcessGroup.cpp:9] Warning: late\n"));
  CHECK_FALSE(ends_in_traceback(kValueError + "step 2\n"));
  CHECK_FALSE(ends_in_traceback("Traceback (most recent call last):\n  File\n"));
  CHECK_FALSE(ends_in_traceback(""));
}
