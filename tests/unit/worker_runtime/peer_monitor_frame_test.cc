#include "worker_runtime/bootstrap/peer_monitor_frame.h"

#include <catch2/catch.hpp>

using ddp::LifelineFrame;
using Type = LifelineFrame::Type;

TEST_CASE("frames come out as they went in, however the bytes are cut", "[worker_runtime]") {
  const std::vector<LifelineFrame> frames = {
      {Type::hello, 3, "ddprun-lifeline-1 4"}, {Type::lost, -1, ""}, {Type::all_left, 0, ""}};
  std::string wire;
  for (const LifelineFrame& frame : frames) {
    wire += ddp::encode(frame);
  }
  for (std::size_t cut = 1; cut <= wire.size(); ++cut) {
    std::string pending;
    std::vector<LifelineFrame> taken;
    bool broken = false;
    for (std::size_t begin = 0; begin < wire.size(); begin += cut) {
      pending += wire.substr(begin, cut);
      while (auto frame = ddp::take_frame(pending, broken)) {
        taken.push_back(*frame);
      }
    }
    REQUIRE_FALSE(broken);
    REQUIRE(taken == frames);
  }
}

TEST_CASE("bytes of something else are recognised", "[worker_runtime]") {
  for (std::string garbage : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(16, '\0'),
                              std::string("\x05\0\0\0\x63\0\0\0\0", 9)}) {
    bool broken = false;
    CHECK_FALSE(ddp::take_frame(garbage, broken));
    CHECK(broken);
  }
}

TEST_CASE("a frame at the size limit passes, one above does not", "[worker_runtime]") {
  const auto passes = [](std::size_t text_size) {
    std::string wire = ddp::encode({Type::peers, 0, std::string(text_size, 'x')});
    bool broken = false;
    return ddp::take_frame(wire, broken).has_value() && !broken;
  };
  CHECK(passes(ddp::kLifelineMaxFrame - 5));
  CHECK_FALSE(passes(ddp::kLifelineMaxFrame - 4));
}

TEST_CASE("packed blobs come out as they went in, and damage is noticed", "[worker_runtime]") {
  const std::vector<std::string> blobs = {"", "abc", std::string("\0\1", 2)};
  const std::string packed = ddp::pack_blobs(blobs);
  CHECK(ddp::unpack_blobs(packed) == blobs);
  CHECK(ddp::unpack_blobs(ddp::pack_blobs({})) == std::vector<std::string>{});
  for (std::size_t size = 0; size < packed.size(); ++size) {
    CHECK_FALSE(ddp::unpack_blobs(packed.substr(0, size)));
  }
  CHECK_FALSE(ddp::unpack_blobs(packed + "x"));
  CHECK_FALSE(ddp::unpack_blobs("\xff\xff\xff\xff"));
}
