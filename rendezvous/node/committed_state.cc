#include "rendezvous/node/committed_state.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/protocol/frame.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

/// An unchanged world starts again without a new state: the story has the attempts since.
void add(message::VoterState& state, message::Story story) {
  state.replicated.attempt = std::max(state.replicated.attempt, story.attempt);
  state.so_far = std::move(story.so_far);
}

/// Of two places of one agent the later one counts.
void add(message::VoterState& state, message::MoreNodes more) {
  for (message::VoterAddress& node : more.nodes) {
    std::erase_if(state.nodes, [&](const auto& known) { return known.voter == node.voter; });
    state.nodes.push_back(std::move(node));
  }
}

/// Frames carry any number; what a coordinator goes on with has to be a job of a service.
bool is_sound(const message::VoterState& state) {
  return 1 <= state.min_nodes && state.min_nodes <= state.max_nodes && state.max_restarts >= 0 &&
         state.heartbeat_timeout.count() > 0 &&
         state.replicated.configuration.voters == std::vector{kServiceVoter};
}

}  // namespace

/// All or nothing: a coordinator that went on with a part of its job could hand out a number twice.
Result<std::optional<message::VoterState>> committed_state(std::string_view frames) {
  std::optional<message::VoterState> state;
  bool good = true;
  FrameReader reader(kCoordinatorFrameBytesMax);
  const bool whole = reader.feed(frames, [&](std::uint8_t type, std::string_view payload) {
    auto message = decode(type, payload);
    if (message && std::holds_alternative<message::VoterState>(*message)) {
      state = std::get<message::VoterState>(std::move(*message));
    } else if (message && state && std::holds_alternative<message::Story>(*message)) {
      add(*state, std::get<message::Story>(std::move(*message)));
    } else if (message && state && std::holds_alternative<message::MoreNodes>(*message)) {
      add(*state, std::get<message::MoreNodes>(std::move(*message)));
    } else {
      good = false;
    }
    return good;
  });
  if (!whole || !good || reader.pending_bytes() > 0 || (state && !is_sound(*state))) {
    return Error{"the state of this job that the service keeps cannot be read",
                 {},
                 "use the same version of ddprun on all nodes, or another --rdzv-id"};
  }
  DDP_CHECK(state.has_value() || frames.empty(), "a whole text begins with a state");
  return state;
}

}  // namespace ddprun
