#include "tests/sim/network.h"

#include <algorithm>
#include <utility>

#include "rendezvous/protocol/message_codec.h"
#include "tests/sim/digest.h"

namespace ddprun::sim {
namespace {

constexpr double kTwice = 0.2;
constexpr double kSwapped = 0.2;

bool inside(const Fault& cut, int machine, int machines) {
  return (machine - cut.target % machines + machines) % machines < cut.span;
}

/// What the state machine is told, and not what keeps the connection.
bool is_report(const message::Message& said) {
  return !std::holds_alternative<message::Hello>(said) &&
         !std::holds_alternative<message::Beat>(said) &&
         !std::holds_alternative<message::Echo>(said) &&
         !std::holds_alternative<message::Leaving>(said);
}

}  // namespace

Network::Network(Timeline& timeline, const SimOptions& options, NetworkEnds& ends)
    : timeline_(timeline), options_(options), ends_(ends) {
  of_machine_.resize(static_cast<std::size_t>(options.machines()));
  opened_.resize(of_machine_.size());
  connections_.reserve(16 * of_machine_.size());
  for (int i = 0; i < options.machines(); ++i) {
    random_.emplace_back(options.seed, 1'000'000 + static_cast<std::uint64_t>(i));
  }
}

bool Network::passes(int from, int to) const {
  if (cuts_now_ == 0 || from == to) {
    return true;
  }
  return std::none_of(cuts_.begin(), cuts_.end(), [&](const Cut& cut) {
    const bool leaves = inside(cut.fault, from, options_.machines());
    if (cut.over || leaves == inside(cut.fault, to, options_.machines())) {
      return false;
    }
    return cut.fault.kind == FaultKind::cut || leaves == (cut.fault.kind == FaultKind::silent_cut);
  });
}

Duration Network::delay(int from, int to) {
  if (from == to) {
    return Duration(0);
  }
  if (options_.costs.exact) {
    return options_.delay_max;
  }
  return random_[static_cast<std::size_t>(from)].up_to(options_.delay_max);
}

ConnectionId Network::connect(int client, int server, int port) {
  const auto id = static_cast<ConnectionId>(connections_.size());
  Connection& made = connections_.emplace_back();
  made.port = port;
  made.label = ++opened_[static_cast<std::size_t>(client)] << 8U |
               static_cast<std::uint32_t>(client % 16 * 16 + server % 16);
  made.ends[index(Side::client)].machine = client;
  made.ends[index(Side::server)].machine = server;
  of_machine_[static_cast<std::size_t>(client)].push_back(id);
  if (client != server) {
    of_machine_[static_cast<std::size_t>(server)].push_back(id);
  }
  return id;
}

void Network::send(ConnectionId id, Side from, const Said& said) {
  if (!is_open(id, from)) {
    return;
  }
  if (options_.scrambled && from == Side::client) {
    Random& random = random_[static_cast<std::size_t>(machine_of(id, from))];
    if (is_report(*said)) {
      if (random.chance(kTwice)) {
        hold_back(id, other(from), said);
      }
      if (random.chance(kSwapped)) {
        hold_back(id, other(from), said);
        return;
      }
    }
  }
  post(id, other(from), said);
}

void Network::post(ConnectionId id, Side to, Message message) {
  const int from = machine_of(id, other(to));
  Pipe& pipe = at(id).ends[index(to)].inbox;
  pipe.last = std::max(pipe.last, timeline_.now() + delay(from, machine_of(id, to)));
  if (pipe.empty()) {
    pipe.clear();
  }
  if (options_.one_by_one && digests_) {
    take_into_digest(id, to, message);
  }
  pipe.packets.push_back({pipe.last, std::move(message)});
  schedule(id, to);
}

void Network::take_into_digest(ConnectionId id, Side to, const Message& message) {
  Digest sent;
  sent.add(label(id)).add(index(to)).add(timeline_.now().count());
  if (const auto* said = std::get_if<Said>(&message)) {
    if (is_heartbeat(**said)) {
      return;
    }
    sent.add(encode(**said));
  } else {
    sent.add(std::get<Closed>(message).reset);
  }
  digest_ += sent.value();
}

void Network::schedule(ConnectionId id, Side to) {
  Pipe& pipe = at(id).ends[index(to)].inbox;
  if (!pipe.due && !pipe.empty()) {
    pipe.due = true;
    const auto detail = static_cast<std::uint32_t>(2 * static_cast<std::uint32_t>(id) + index(to));
    timeline_.at(pipe.packets[pipe.read].arrives,
                 [this, id, to] {
                   at(id).ends[index(to)].inbox.due = false;
                   pump(id, to);
                 },
                 {ActionTag::Kind::delivery, machine_of(id, to), detail});
  }
}

bool Network::unread(ConnectionId id, Side side) const {
  const End& end = at(id).ends[index(side)];
  return !end.inbox.empty() && end.inbox.packets[end.inbox.read].arrives <= timeline_.now() &&
         passes(machine_of(id, other(side)), end.machine);
}

void Network::pump(ConnectionId id, Side to) {
  const auto end = [&]() -> End& { return at(id).ends[index(to)]; };
  const int from = machine_of(id, other(to));
  while (!end().inbox.empty()) {
    if (!passes(from, end().machine)) {
      return;  // the end of the cut looks again
    }
    Packet& packet = end().inbox.packets[end().inbox.read];
    if (packet.arrives > timeline_.now()) {
      break;
    }
    if (!ends_.powered(end().machine)) {
      end().inbox.clear();
      return;
    }
    if (!ends_.awake(end().machine)) {
      return;
    }
    if (!end().open) {
      const bool closed = std::holds_alternative<Closed>(packet.message);
      end().inbox.clear();
      if (!closed) {
        bounce(id, to);
      }
      return;
    }
    if (end().held || !ends_.reads(end().machine)) {
      return;
    }
    ++end().inbox.read;
    const Message message = std::move(packet.message);  // delivering may send, and move packets
    ends_.deliver(id, to, message);
    if (options_.one_by_one) {
      break;
    }
  }
  schedule(id, to);
}

/// Something came for a closed end.
void Network::bounce(ConnectionId id, Side closed) {
  const Side sender = other(closed);
  End& end = at(id).ends[index(sender)];
  end.inbox.clear();  // of what was not through yet nothing is sent again
  if (end.open) {
    post(id, sender, Closed{true});
  }
}

void Network::hold(ConnectionId id, Side side) {
  at(id).ends[index(side)].held = true;
}

void Network::close(ConnectionId id, Side side, bool by_reset) {
  End& end = at(id).ends[index(side)];
  if (!end.open) {
    return;
  }
  const bool reset = by_reset || unread(id, side);
  end.open = false;
  end.inbox.clear();
  if (!at(id).ends[index(other(side))].open) {
    return;
  }
  const bool is_told = side == Side::client || !at(id).broken_at_server;
  if (reset && (!is_told || !passes(end.machine, machine_of(id, other(side))))) {
    at(id).ends[index(other(side))].inbox.clear();
    return;  // a reset is sent once; the next that comes is answered by one again
  }
  post(id, other(side), Closed{reset});
}

void Network::lose(ConnectionId id, Side side) {
  End& end = at(id).ends[index(side)];
  end.open = false;
  end.inbox.clear();
  if (!passes(end.machine, machine_of(id, other(side)))) {
    at(id).ends[index(other(side))].inbox.clear();
  }
}

void Network::call(int from, int to, std::function<void()> what) {
  if (!passes(from, to)) {
    return;
  }
  timeline_.at(timeline_.now() + delay(from, to),
               [this, from, to, what = std::move(what)] {
                 if (passes(from, to)) {
                   what();
                 }
               },
               {ActionTag::Kind::call, to, static_cast<std::uint32_t>(from)});
}

void Network::hold_back(ConnectionId id, Side to, Message message) {
  Random& random = random_[static_cast<std::size_t>(machine_of(id, other(to)))];
  timeline_.at(timeline_.now() + random.up_to(kHeldBackMax),
               [this, id, to, message = std::move(message)] { held_back(id, to, message); });
}

void Network::held_back(ConnectionId id, Side to, const Message& message) {
  const int machine = machine_of(id, to);
  if (is_open(id, to) && !(passes(machine_of(id, other(to)), machine) && ends_.reads(machine))) {
    timeline_.at(timeline_.now() + milliseconds(50),
                 [this, id, to, message] { held_back(id, to, message); });
    return;
  }
  ends_.deliver(id, to, message);  // also after the end of the connection
}

void Network::cut(const Fault& fault) {
  cuts_.push_back({fault, false});
  ++cuts_now_;
  timeline_.at(timeline_.now() + fault.lasts, [this, cut = cuts_.size() - 1] { heal(cut); });
}

void Network::heal_all() {
  for (std::size_t cut = 0; cut < cuts_.size(); ++cut) {
    heal(cut);
  }
}

void Network::heal(std::size_t cut) {
  if (cuts_[cut].over) {
    return;
  }
  cuts_[cut].over = true;
  --cuts_now_;
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    resend(static_cast<ConnectionId>(i), Side::client);
    resend(static_cast<ConnectionId>(i), Side::server);
  }
}

/// What was lost on its way is sent again, some time after the network passes it again.
void Network::resend(ConnectionId id, Side to) {
  End& end = at(id).ends[index(to)];
  Pipe& pipe = end.inbox;
  if (pipe.due || pipe.empty() || end.held) {
    return;
  }
  const int from = machine_of(id, other(to));
  const Duration again = random_[static_cast<std::size_t>(from)].up_to(kRetransmitMax);
  pipe.last = std::max(pipe.last, timeline_.now() + again);
  for (std::size_t i = pipe.read; i < pipe.packets.size(); ++i) {
    pipe.packets[i].arrives = std::max(pipe.packets[i].arrives, timeline_.now() + again);
  }
  schedule(id, to);
}

void Network::wake(int machine) {
  const std::vector<ConnectionId> all = of_machine_[static_cast<std::size_t>(machine)];
  for (const ConnectionId id : all) {
    for (const Side side : {Side::client, Side::server}) {
      if (machine_of(id, side) == machine) {
        pump(id, side);
      }
    }
  }
}

void Network::break_off(ConnectionId id, bool at_server_only) {
  at(id).broken_at_server = at_server_only;
  for (const Side side : {Side::client, Side::server}) {
    End& end = at(id).ends[index(side)];
    end.inbox.clear();
    if (end.open && !(at_server_only && side == Side::client)) {
      post(id, side, Closed{true, true});
    }
  }
}

// --- For an exploration ---------------------------------------------------------------------

bool is_heartbeat(const message::Message& said) {
  return std::holds_alternative<message::Beat>(said) || std::holds_alternative<message::Echo>(said);
}

std::pair<ConnectionId, Side> Network::end_of(const ActionTag& tag) const {
  return {static_cast<ConnectionId>(tag.detail / 2),
          tag.detail % 2 == 0 ? Side::client : Side::server};
}

const Message* Network::next_of(ConnectionId connection, Side to) const {
  const Pipe& pipe = at(connection).ends[index(to)].inbox;
  return pipe.empty() ? nullptr : &pipe.packets[pipe.read].message;
}

std::vector<ConnectionId> Network::open_connections() const {
  std::vector<ConnectionId> open;
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    const auto& ends = connections_[i].ends;
    if (ends[0].open && ends[1].open && ends[0].machine != ends[1].machine) {
      open.push_back(static_cast<ConnectionId>(i));
    }
  }
  return open;
}

}  // namespace ddprun::sim
