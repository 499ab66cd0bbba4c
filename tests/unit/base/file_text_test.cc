#include "rendezvous/base/file_text.h"

#include <catch2/catch.hpp>

#include "rendezvous/base/open_files.h"

using namespace ddprun;

TEST_CASE("Of files that are named, /dev/null is empty, and what never ends is not read") {
  CHECK(read_named_file("/dev/null") == "");
  CHECK_FALSE(read_named_file("/dev/zero"));
  CHECK_FALSE(read_named_file("/"));
  CHECK_FALSE(read_named_file("/absent"));
  CHECK(is_directory("/"));
  CHECK_FALSE(is_directory("/dev/null"));
  CHECK_FALSE(is_directory("/absent"));
}

TEST_CASE("A want of descriptors has an advice of its own, whatever is opened") {
  CHECK(open_files_todo(EMFILE, "other") == "raise the limit of open files (ulimit -n)");
  CHECK(open_files_todo(ENFILE, "other") ==
        "raise this machine's limit of open files (sysctl fs.file-max)");
  CHECK(open_files_todo(EACCES, "other") == "other");
  CHECK(open_files_todo(EACCES).empty());
}
