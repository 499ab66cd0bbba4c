#include "rendezvous/protocol/frame.h"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

using namespace ddprun;

namespace {

using Frames = std::vector<std::pair<int, std::string>>;

/// Feeds the bytes in pieces of the given size.
Frames read_in_pieces(FrameReader& reader, std::string_view bytes, std::size_t piece) {
  Frames frames;
  for (std::size_t i = 0; i < bytes.size(); i += piece) {
    REQUIRE(reader.feed(bytes.substr(i, piece), [&](std::uint8_t type, std::string_view payload) {
      frames.emplace_back(type, payload);
      return true;
    }));
  }
  return frames;
}

}  // namespace

TEST_CASE("Frames come out whole, however the stream is cut") {
  const std::string stream = frame(1, "") + frame(2, "hello") + frame(3, std::string(300, 'x'));
  const Frames expected = {{1, ""}, {2, "hello"}, {3, std::string(300, 'x')}};
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    FrameReader reader(1024);
    CHECK(read_in_pieces(reader, stream, piece) == expected);
    CHECK(reader.pending_bytes() == 0);
  }
}

TEST_CASE("A frame may have its limit's length, and not a byte more") {
  const auto fits = [](std::size_t payload_bytes) {
    FrameReader reader(100);
    return reader.feed(frame(1, std::string(payload_bytes, 'x')),
                       [](std::uint8_t, std::string_view) { return true; });
  };
  CHECK(fits(98));
  CHECK(fits(99));
  CHECK_FALSE(fits(100));
}

TEST_CASE("A length of zero or beyond the limit breaks the stream, also when cut") {
  for (const std::string& bytes : {std::string(4, '\0'), std::string(4, '\xff')}) {
    for (std::size_t piece : {std::size_t{1}, std::size_t{4}}) {
      FrameReader reader(100);
      bool sound = true;
      for (std::size_t i = 0; i < bytes.size(); i += piece) {
        sound = reader.feed(bytes.substr(i, piece), [](auto, auto) { return true; });
      }
      CHECK_FALSE(sound);
    }
  }
}

TEST_CASE("Nothing is read behind a frame whose receiver has had enough") {
  FrameReader reader(100);
  int seen = 0;
  CHECK(reader.feed(frame(1, "a") + frame(2, "b"), [&](auto, auto) {
    ++seen;
    return false;
  }));
  CHECK(seen == 1);
}

TEST_CASE("A preamble is told from strangers at the first wrong byte") {
  const std::string good = preamble();
  CHECK(good.front() == 'D');
  for (std::size_t n = 0; n < good.size(); ++n) {
    CHECK(check_preamble(good.substr(0, n)).verdict == PreambleVerdict::incomplete);
  }
  CHECK(check_preamble(good).verdict == PreambleVerdict::good);
  CHECK(check_preamble("G").verdict == PreambleVerdict::stranger);
  CHECK(check_preamble(std::string(1, '\0')).verdict == PreambleVerdict::stranger);
  CHECK(check_preamble("DDPRUX").verdict == PreambleVerdict::stranger);
  const PreambleCheck other = check_preamble(preamble(kProtocolVersion + 258));
  CHECK(other.verdict == PreambleVerdict::other_version);
  CHECK(other.version == kProtocolVersion + 258);
}
