#include "trainer/metrics/event_message.h"

#include <catch2/catch.hpp>

#include "trainer/metrics/crc32c.h"
#include "trainer/metrics/event_file.h"

namespace ddp {
namespace {

std::string bytes(std::initializer_list<int> values) {
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("CRC-32C has the values of RFC 3720", "[metrics]") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xE3069283U);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAU);
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43U);
}

TEST_CASE("the mask of a CRC rotates by 15 and adds a constant", "[metrics]") {
  CHECK(masked_crc32c("") == 0xA282EAD8U);
  // 0xE3069283 rotated right by 15 is 0x2507C60D.
  CHECK(masked_crc32c("123456789") == 0x2507C60DU + 0xA282EAD8U);
}

TEST_CASE("a record has its length and the CRC of both", "[metrics]") {
  const auto record = framed("123456789");
  REQUIRE(record.size() == 8 + 4 + 9 + 4);
  CHECK(record.substr(0, 8) == bytes({9, 0, 0, 0, 0, 0, 0, 0}));
  CHECK(record.substr(12, 9) == "123456789");
  const std::uint32_t crc = masked_crc32c("123456789");
  for (unsigned i = 0; i < 4; ++i) {
    CHECK(static_cast<unsigned char>(record[21 + i]) == (crc >> (8 * i) & 0xFFU));
  }
}

TEST_CASE("a scalar is an event in protobuf's bytes", "[metrics]") {
  // wall time 1.0 (fixed64), step 300 (varint of two bytes), summary { value { tag, 2.0 } }
  CHECK(scalars_event({1.0, 300}, {{"ab", 2.0F}}) ==
        bytes({0x09, 0,    0,    0,    0,    0,   0,   0xF0, 0x3F, 0x10, 0xAC, 0x02, 0x2A,
               0x0B, 0x0A, 0x09, 0x0A, 0x02, 'a', 'b', 0x15, 0,    0,    0,    0x40}));
}

TEST_CASE("a session's start is an event with its first step", "[metrics]") {
  CHECK(session_start_event({1.0, 5}) ==
        bytes({0x09, 0, 0, 0, 0, 0, 0, 0xF0, 0x3F, 0x10, 0x05, 0x3A, 0x02, 0x08, 0x01}));
}

TEST_CASE("a new event file comes after those that are there, whatever the clock says",
          "[metrics]") {
  CHECK(next_event_file_name({}, 5, "h", 7) == "events.out.tfevents.0000000005.h.7.0");
  CHECK(next_event_file_name({"events.out.tfevents.0000000005.h.9.0", "notes.txt"}, 5, "h", 7) ==
        "events.out.tfevents.0000000006.h.7.0");
  CHECK(next_event_file_name(
            {"events.out.tfevents.1800000000.h.9.0", "events.out.tfevents.0000000007.h.9.0"},
            1700000000, "h", 7) == "events.out.tfevents.1800000001.h.7.0");
  CHECK(next_event_file_name({"events.out.tfevents.x"}, 5, "h", 7) ==
        "events.out.tfevents.0000000005.h.7.0");
}

}  // namespace ddp
