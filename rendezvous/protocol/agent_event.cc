#include "rendezvous/protocol/agent_event.h"

#include <utility>

namespace ddprun {
namespace {

/// One overload per message that an agent may send. What is of another attempt passes as well, for
/// the state machine ignores it: one place decides that, not two.
struct EventOf {
  NodeId id;
  std::optional<Event> operator()(message::Started& m) const {
    return WorkersStarted{id, m.attempt};
  }
  std::optional<Event> operator()(message::Failed& m) const {
    return WorkerFailed{id, m.attempt, std::move(m.record)};
  }
  std::optional<Event> operator()(message::Finished& m) const {
    return WorkersFinished{id, m.attempt, m.progress};
  }
  std::optional<Event> operator()(message::Stopped& m) const {
    return WorkersStopped{id, m.attempt, std::move(m.records), m.records_dropped, m.progress};
  }
  std::optional<Event> operator()(message::Progress& m) const {
    return WorkersProgress{id, m.attempt, m.progress};
  }
  std::optional<Event> operator()(message::Hung& m) const {
    return WorkersHung{id, m.attempt, std::move(m.positions), std::move(m.why)};
  }
  std::optional<Event> operator()(message::StopRequest& m) const {
    return StopRequested{id, m.signal, m.wish, std::move(m.notice)};
  }
  std::optional<Event> operator()(message::GiveUp& m) const {
    return NodeGaveUp{id, std::move(m.why)};
  }
  std::optional<Event> operator()(message::StateKept& m) const {
    return StateAcknowledged{id, m.configuration};
  }
  std::optional<Event> operator()(message::TellEnvironment& m) const {
    return EnvironmentTold{id, std::move(m.environment)};
  }
  // What only a coordinator sends, or what Leader deals with itself. A new message ends up here,
  // and its sender is dropped, until it has an overload.
  template <class Other>
  std::optional<Event> operator()(Other&) const {
    return std::nullopt;
  }
};

}  // namespace

std::optional<Event> agent_event(NodeId node, message::Message said) {
  return std::visit(EventOf{node}, said);
}

}  // namespace ddprun
