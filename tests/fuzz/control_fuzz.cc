// Any bytes on the control port: frames do not depend on how the bytes are cut, decoding is total,
// and what it gives is written and read again as the same.
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/protocol/frame.h"
#include "rendezvous/protocol/message_codec.h"
#include "tests/fuzz/input.h"

using namespace ddprun;
using namespace ddprun::fuzz;

namespace {

using Frames = std::vector<std::pair<std::uint8_t, std::string>>;

Frames read(std::string_view bytes, bool cut, std::uint32_t seed, bool& good) {
  Frames frames;
  FrameReader reader(kAgentFrameBytesMax);
  const auto keep = [&frames](std::uint8_t type, std::string_view payload) {
    frames.emplace_back(type, payload);
    return true;
  };
  const auto take = [&](std::string_view piece) {
    good = reader.feed(piece, keep);
    require(reader.pending_bytes() <= kFrameHeaderBytes + kAgentFrameBytesMax, "memory is bounded");
    return good;
  };
  if (cut) {
    in_pieces(bytes, seed, take);
  } else {
    take(bytes);
  }
  return frames;
}

void check_message(std::uint8_t type, std::string_view payload) {
  const auto message = decode(type, payload);
  if (!message) {
    require(!message.error().what.empty(), "a refusal has a reason");
    return;
  }
  // Not always the same bytes as came in: the encoder has one way to say what may be said in two.
  const std::string bytes = encode(*message);
  bool good = true;
  const Frames frames = read(bytes, false, 0, good);
  require(good && frames.size() == 1, "a message is one frame");
  const auto again = decode(frames[0].first, frames[0].second);
  require(static_cast<bool>(again), "what is written can be read");
  require(encode(*again) == bytes, "what is read is what was written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t how = input.byte();
  if ((how & 1) != 0) {  // one message, so that the fuzzer need not learn lengths first
    const std::uint8_t type = input.byte();
    check_message(type, input.rest());
    return 0;
  }
  const std::string_view bytes = input.rest();
  (void)check_preamble(bytes);
  bool whole_good = true;
  bool cut_good = true;
  const Frames whole = read(bytes, false, 0, whole_good);
  const Frames cut = read(bytes, true, how, cut_good);
  require(whole_good == cut_good && whole == cut, "frames do not depend on the cuts");
  for (const auto& [type, payload] : whole) {
    check_message(type, payload);
  }
  return 0;
}
