#include "trainer/text/file_aside.h"

#include <catch2/catch.hpp>

#include "ddp/error.h"
#include "tests/support/temp_dir.h"
#include "trainer/text/mapped_file.h"

namespace ddp {
namespace {

using Catch::Matchers::Contains;
using ddprun::test::read_file;
using ddprun::test::TempDir;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::size_t files_in(const TempDir& folder) {
  const std::filesystem::directory_iterator entries(folder.path());
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace

TEST_CASE("a file written aside is there when it is finished, and not before", "[text]") {
  const TempDir folder;
  const auto path = folder.write("a", "old");
  const std::string large(std::size_t{3} << 20U, 'x');
  {
    FileAside file(path);
    file.append(bytes("1234"));
    file.append(bytes(large));
    file.append(bytes("end"));
    CHECK(read_file(path) == "old");
    file.write_start(bytes("AB"));
    file.finish();
  }
  CHECK(read_file(path) == "AB34" + large + "end");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("what was not finished is removed, and what was there stays", "[text]") {
  const TempDir folder;
  const auto path = folder.write("a", "old");
  {
    FileAside file(path);
    file.append(bytes("new"));
  }
  CHECK(read_file(path) == "old");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("what a killed process left of a path and a mark is removed, and nothing else",
          "[text]") {
  const TempDir folder;
  for (const char* name :
       {"a.node1.77.partial", "a.node10.77.partial", "a.node1.77", "b.node1.77.partial"}) {
    folder.write(name, "left");
  }
  FileAside file(folder.file("a"), "node1.");
  file.finish();
  CHECK_FALSE(std::filesystem::exists(folder.file("a.node1.77.partial")));
  CHECK(files_in(folder) == 4);
}

TEST_CASE("a file that another one still writes aside is no left-over", "[text]") {
  const TempDir folder;
  const auto path = folder.file("a");
  FileAside first(path, "rank0.");
  first.append(bytes("first"));
  {
    FileAside second(path, "rank0.");
    second.append(bytes("second"));
    CHECK(files_in(folder) == 2);
    second.finish();
    CHECK(read_file(path) == "second");
  }
  first.finish();
  CHECK(read_file(path) == "first");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("a folder that is not there is an error with path and reason", "[text]") {
  const TempDir folder;
  CHECK_THROWS_WITH(FileAside(folder.file("none/a")),
                    Contains("none: no file can be made there: No such file"));
}

TEST_CASE("a file whose name was taken away meanwhile cannot be finished", "[text]") {
  const TempDir folder;
  FileAside first(folder.file("a"));
  std::filesystem::remove_all(folder.path());
  CHECK_THROWS_WITH(first.finish(), Contains("cannot be brought to the disk"));
}

TEST_CASE("a mapped file shows the file's bytes, an empty one none", "[text]") {
  const TempDir folder;
  const MappedFile map(folder.write("a", "abc"));
  CHECK(map.text() == "abc");
  map.read_in_order();
  MappedFile moved(folder.write("b", ""));
  CHECK(moved.text().empty());
  moved.read_in_order();
  CHECK_THROWS_WITH(MappedFile(folder.file("c")), Contains("c: cannot be read: No such file"));
  CHECK_THROWS_WITH(MappedFile(folder.path()), Contains("is not a regular file"));
}

}  // namespace ddp
