#include "rendezvous/base/file_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/open_files.h"
#include "tests/support/temp_dir.h"

using namespace ddprun;

TEST_CASE("Of files that are named, /dev/null is empty, and what never ends is not read") {
  CHECK(read_named_file("/dev/null") == "");
  CHECK_FALSE(read_named_file("/dev/zero"));
  CHECK_FALSE(read_named_file("/"));
  CHECK_FALSE(read_named_file("/absent"));
  CHECK(why_no_text("/") == "it is a directory");
  CHECK(why_no_text("/dev/zero") == "it is no regular file");
  CHECK(why_no_text("/absent") == "No such file or directory");
}

TEST_CASE("A pipe that the shell made is read to its end, and a named one is not waited for") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  REQUIRE(::write(write_end.get(), "a\nb\n", 4) == 4);
  write_end.reset();
  CHECK(read_named_file("/dev/fd/" + std::to_string(read_end.get())) == "a\nb\n");

  const test::TempDir folder;
  const std::string fifo = (folder.path() / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK_FALSE(read_named_file(fifo));
  CHECK(why_no_text(fifo) == "it is no regular file");
}

TEST_CASE("A want of descriptors has an advice of its own, whatever is opened") {
  CHECK(open_files_todo(EMFILE, "other") == "raise the limit of open files (ulimit -n)");
  CHECK(open_files_todo(ENFILE, "other") ==
        "raise this machine's limit of open files (sysctl fs.file-max)");
  CHECK(open_files_todo(EACCES, "other") == "other");
  CHECK(open_files_todo(EACCES).empty());
}
