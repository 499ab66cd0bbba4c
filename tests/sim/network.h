// Network: connections between machines, as TCP has them: each direction in order, nothing lost as
// long as both machines live. What a cut holds up comes after it, if anybody is still there to read
// it. A process that ends closes its connections; what comes for a closed one is answered by a
// reset, which also drops what the closed end had not got through yet. Besides, calls: a question
// and its answer on a connection of their own.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/protocol/message.h"
#include "tests/sim/fault.h"
#include "tests/sim/timeline.h"

namespace ddprun::sim {

/// What is said on a connection; one may go to many.
using Said = std::shared_ptr<const message::Message>;
/// The other end is closed; nothing follows.
struct Closed {
  bool reset = false;
  bool broken = false;  ///< by nobody at the other end
};
using Message = std::variant<Said, Closed>;

enum class Side : std::uint8_t { client, server };
constexpr Side other(Side side) {
  return side == Side::client ? Side::server : Side::client;
}
enum class ConnectionId : std::uint32_t {};

/// It keeps a lease, and says nothing else.
bool is_heartbeat(const message::Message& said);

/// Of the job's endpoints.
inline constexpr int kEndpointPort = 29400;
/// The name and the address of a machine.
inline std::string host_name(int machine) {
  return "n" + std::to_string(machine);
}
inline int machine_of_host(const std::string& name) {
  int machine = 0;
  for (std::size_t i = 1; i < name.size(); ++i) {
    machine = 10 * machine + (name[i] - '0');
  }
  return machine;
}

/// How late a message may be that Network holds back (SimOptions::scrambled).
inline constexpr Duration kHeldBackMax = milliseconds(300);
/// After a cut, until TCP sends again.
inline constexpr Duration kRetransmitMax = milliseconds(200);

/// Who lives at the ends.
class NetworkEnds {
 public:
  NetworkEnds() = default;
  NetworkEnds(const NetworkEnds&) = delete;
  NetworkEnds& operator=(const NetworkEnds&) = delete;
  virtual ~NetworkEnds() = default;
  /// Its kernel answers.
  [[nodiscard]] virtual bool powered(int machine) const = 0;
  /// It is not suspended.
  [[nodiscard]] virtual bool awake(int machine) const = 0;
  /// Its processes read.
  [[nodiscard]] virtual bool reads(int machine) const = 0;
  virtual void deliver(ConnectionId connection, Side to, const Message& message) = 0;
};

class Network {
 public:
  Network(Timeline& timeline, const SimOptions& options, NetworkEnds& ends);

  ConnectionId connect(int client, int server, int port = 0);
  /// Of the server, that the client named.
  [[nodiscard]] int port_of(ConnectionId connection) const { return at(connection).port; }
  [[nodiscard]] int machine_of(ConnectionId connection, Side side) const {
    return at(connection).ends[index(side)].machine;
  }
  [[nodiscard]] bool is_open(ConnectionId connection, Side side) const {
    return at(connection).ends[index(side)].open;
  }
  template <class Kind>
  void send(ConnectionId connection, Side from, Kind message) {
    send(connection, from, std::make_shared<const message::Message>(std::move(message)));
  }
  void send(ConnectionId connection, Side from, const Said& said);
  /// Reads nothing more; the other side does not notice.
  void hold(ConnectionId connection, Side side);
  void close(ConnectionId connection, Side side) { close(connection, side, false); }
  /// By a reset: its process gave the other side up, and lives.
  void reset(ConnectionId connection, Side side) { close(connection, side, true); }
  /// Its machine lost power: nobody is told, and what it had not got through is gone.
  void lose(ConnectionId connection, Side side);
  /// A device on the way breaks it: what is on its way is lost, and each side is told by a reset.
  /// Or the server alone is: the client learns of it when it says something.
  void break_off(ConnectionId connection, bool at_server_only);
  /// Something waits here unread.
  [[nodiscard]] bool unread(ConnectionId connection, Side side) const;

  /// Delivers `what` once, if the network passes it now and then.
  void call(int from, int to, std::function<void()> what);

  /// False while a cut is between.
  [[nodiscard]] bool passes(int from, int to) const;
  void cut(const Fault& fault);
  /// Ends all cuts.
  void heal_all();
  [[nodiscard]] bool is_cut() const { return cuts_now_ > 0; }

  // For an exploration (SimOptions::one_by_one).

  /// The connection of a delivery's tag, and to which side.
  [[nodiscard]] std::pair<ConnectionId, Side> end_of(const ActionTag& tag) const;
  /// What is read next there; nothing may wait.
  [[nodiscard]] const Message* next_of(ConnectionId connection, Side to) const;
  /// The same in each order of events, unlike the number of the connection.
  [[nodiscard]] std::uint32_t label(ConnectionId connection) const { return at(connection).label; }
  /// Of all that was ever sent but heartbeats, whatever the order.
  [[nodiscard]] std::uint64_t digest() const { return digest_; }
  /// Of what was sent before and is sent again; none is computed for that until then.
  void expect_digest(std::optional<std::uint64_t> digest) {
    digest_ = digest.value_or(digest_);
    digests_ = digest.has_value();
  }
  /// Connections with both ends open, between two machines.
  [[nodiscard]] std::vector<ConnectionId> open_connections() const;
  /// A machine whose processes stood still goes on: all that waits is read.
  void wake(int machine);

 private:
  struct Packet {
    Duration arrives{};
    Message message;
  };
  struct Pipe {
    std::vector<Packet> packets;
    std::size_t read = 0;  ///< packets at the front that were delivered
    Duration last{};
    bool due = false;  ///< a pump is on the timeline
    [[nodiscard]] bool empty() const { return read == packets.size(); }
    void clear() {
      packets.clear();
      read = 0;
    }
  };
  struct End {
    int machine = 0;
    bool open = true;
    bool held = false;
    Pipe inbox;
  };
  struct Connection {
    std::array<End, 2> ends;
    int port = 0;
    std::uint32_t label = 0;
    bool broken_at_server = false;
  };
  struct Cut {
    Fault fault;
    bool over = false;
  };

  static std::size_t index(Side side) { return static_cast<std::size_t>(side); }
  [[nodiscard]] const Connection& at(ConnectionId id) const {
    return connections_[static_cast<std::size_t>(id)];
  }
  Connection& at(ConnectionId id) { return connections_[static_cast<std::size_t>(id)]; }
  void close(ConnectionId connection, Side side, bool by_reset);
  Duration delay(int from, int to);
  void post(ConnectionId id, Side to, Message message);
  void schedule(ConnectionId id, Side to);
  void pump(ConnectionId id, Side to);
  void bounce(ConnectionId id, Side closed);
  void hold_back(ConnectionId id, Side to, Message message);
  void held_back(ConnectionId id, Side to, const Message& message);
  void heal(std::size_t cut);
  void resend(ConnectionId id, Side to);
  void take_into_digest(ConnectionId id, Side to, const Message& message);

  Timeline& timeline_;
  const SimOptions& options_;
  NetworkEnds& ends_;
  std::vector<Connection> connections_;
  std::vector<std::vector<ConnectionId>> of_machine_;
  std::vector<std::uint32_t> opened_;  ///< connections, by machine
  std::vector<Random> random_;         ///< by machine
  std::vector<Cut> cuts_;
  int cuts_now_ = 0;
  std::uint64_t digest_ = 0;
  bool digests_ = true;
};

}  // namespace ddprun::sim
