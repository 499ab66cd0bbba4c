// A recorded session of PyTorch 2.13 (init_process_group and DDP, two ranks) played to our store:
// every connection gets the very bytes that PyTorch's own server gave it.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "rendezvous/store/store_session.h"
#include "tests/unit/store/hex.h"

using namespace ddprun;
using namespace ddprun::test;

TEST_CASE("A real session of PyTorch gets the same replies, byte for byte") {
  std::ifstream recording(DDPRUN_SESSION_RECORDING);
  REQUIRE(recording);
  KeySpace keys;
  std::map<int, std::unique_ptr<StoreSession>> sessions;
  std::map<int, std::string> expected;
  std::map<int, std::string> got;
  int connection = 0;
  char direction = 0;
  std::string hex;
  while (recording >> connection >> direction >> hex) {
    if (direction == '<') {
      expected[connection] += from_hex(hex);
      continue;
    }
    auto& session = sessions[connection];
    if (!session) {
      session = std::make_unique<StoreSession>(
          keys, ConnectionId{static_cast<std::uint64_t>(connection)});
    }
    KeySpace::Woken woken;
    REQUIRE(session->receive(from_hex(hex), got[connection], woken));
    for (const ConnectionId one : woken) {
      got[static_cast<int>(one)].push_back(store_protocol::kStopWaiting);
    }
  }
  CHECK(sessions.size() >= 2);
  for (const auto& [number, bytes] : expected) {
    INFO("connection " << number);
    CHECK(to_hex(got[number]) == to_hex(bytes));
  }
}
