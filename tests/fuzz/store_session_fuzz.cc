// Any bytes sent to the store, in both dialects: the replies do not depend on how the bytes are cut
// into pieces.
#include <string>

#include "rendezvous/store/store_session.h"
#include "tests/fuzz/input.h"

using namespace ddprun;
using namespace ddprun::fuzz;

namespace {

struct Outcome {
  std::string reply;
  bool open = true;
};

Outcome run(std::string_view bytes, bool cut, std::uint32_t seed) {
  KeySpace keys;
  Outcome outcome;
  KeySpace::Woken woken;
  StoreSession session(keys, ConnectionId{1});
  const auto take = [&](std::string_view piece) {
    std::string reply;
    outcome.open = session.receive(piece, reply, woken);
    outcome.reply += reply;
    while (outcome.open && session.paused()) {
      reply.clear();
      outcome.open = session.resume(reply, woken);
      outcome.reply += reply;
    }
    return outcome.open;
  };
  if (cut) {
    in_pieces(bytes, seed, take);
  } else {
    take(bytes);
  }
  require(keys.waiting() <= 1, "a connection waits once at most");
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t how = input.byte();
  std::string bytes;
  if ((how & 1) != 0) {
    bytes = std::string("\x00\xCE\xF7\x85\x3C", 5);  // the modern dialect's beginning
  }
  bytes += input.rest();
  const Outcome whole = run(bytes, false, 0);
  const Outcome cut = run(bytes, true, how);
  // In pieces, what can never become a request may be seen later: parsing again is put off until
  // as many bytes are there as the request needs at least.
  require(cut.open || !whole.open, "what is refused in pieces is refused whole");
  require(whole.reply == cut.reply, "replies do not depend on the cuts");
  return 0;
}
