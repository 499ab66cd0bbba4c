#include "agent/warm/zip_module.h"

#include <catch2/catch.hpp>
#include <cstdint>

using namespace ddprun;

namespace {

std::uint32_t number_at(const std::string& bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t byte = 0; byte < 4; ++byte) {
    number |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes.at(at + byte)))
              << (8 * byte);
  }
  return number;
}

}  // namespace

TEST_CASE("a module archive holds the source as it is, behind its name", "[agent]") {
  const std::string archive = module_archive("sitecustomize.py", "print(1)\n");
  CHECK(number_at(archive, 0) == 0x04034b50);
  CHECK(archive.substr(30, 16 + 9) == "sitecustomize.pyprint(1)\n");
  CHECK(number_at(archive, 18) == 9);
  CHECK(number_at(archive, 22) == 9);
}

TEST_CASE("a module archive has the checksum that zip wants", "[agent]") {
  // The check value that the literature gives for this text.
  CHECK(number_at(module_archive("a", "123456789"), 14) == 0xcbf43926);
  CHECK(number_at(module_archive("a", ""), 14) == 0);
}

TEST_CASE("the end of a module archive leads to its directory, and that to the file", "[agent]") {
  const std::string archive = module_archive("m.py", "x = 1\n");
  const std::size_t end = archive.size() - 22;
  CHECK(number_at(archive, end) == 0x06054b50);
  const std::size_t directory = number_at(archive, end + 16);
  CHECK(number_at(archive, directory) == 0x02014b50);
  CHECK(number_at(archive, end + 12) == end - directory);
  CHECK(number_at(archive, directory + 16) == number_at(archive, 14));
  CHECK(number_at(archive, directory + 42) == 0);
  CHECK(archive.substr(directory + 46, 4) == "m.py");
}
