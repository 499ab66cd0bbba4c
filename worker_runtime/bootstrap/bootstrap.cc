#include "worker_runtime/bootstrap/bootstrap.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "ddp/error.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/socket.h"
#include "rendezvous/base/text.h"
#include "rendezvous/store/store_client.h"
#include "worker_runtime/bootstrap/peer_monitor_socket.h"

namespace ddp {
namespace {

using ddprun::Result;
using Deadline = PeerMonitor::Deadline;

/// From values to exceptions: a training program expects ddp::StartError.
template <class T>
T value_or_throw(Result<T> result) {
  if (!result) {
    throw StartError(result.error().sentence());
  }
  return *std::move(result);
}

std::optional<std::uint16_t> parse_port(const std::string& text) {
  const auto port = ddprun::parse_number<std::uint16_t>(text);
  return port != 0 ? port : std::nullopt;
}

/// The store at MASTER_ADDR:MASTER_PORT, with what is left until the deadline for each call.
ddprun::StoreClient open_store(const World& world, Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return value_or_throw(ddprun::StoreClient::connect({world.master_host, world.master_port},
                                                     std::max(left, left.zero())));
}

/// With the attempt in it: a store that serves several attempts must not give out the port of a
/// dead rank 0.
std::string lifeline_key(const World& world) {
  const std::string key = fmt::format("ddprun/{}/lifeline", world.restart_count);
  // The port of the meeting before is still there, and nobody listens at it.
  return world.meetings_before == 0 ? key : fmt::format("{}/{}", key, world.meetings_before);
}

void publish_in_store(const World& world, std::uint16_t port, Deadline deadline) {
  // For this one call: a rank needs the store only to find rank 0.
  auto store = open_store(world, deadline);
  if (auto set = store.set(lifeline_key(world), std::to_string(port)); !set) {
    throw StartError(set.error().sentence());
  }
}

std::uint16_t await_in_store(const World& world, Deadline deadline) {
  auto store = open_store(world, deadline);
  // The store answers when rank 0 has set the key: no rank polls.
  const std::string text = value_or_throw(store.get(lifeline_key(world)));
  // The store is the program's as well, which may have set any key.
  const auto port = parse_port(text);
  if (!port) {
    throw StartError("store " + store.peer() + ": rank 0's port reads '" + text +
                     "'; another program uses the same key");
  }
  return *port;
}

void write_port_file(const std::string& path, std::uint16_t port) {
  // rename(2) is atomic: a reader finds the whole number or no file.
  const std::string aside = path + ".new";
  std::ofstream out(aside);
  out << port;
  out.close();
  // A full disk shows at the latest in close().
  if (!out || std::rename(aside.c_str(), path.c_str()) != 0) {
    throw StartError(path +
                     ": rank 0 cannot write its port there; give mpirun -x "
                     "MASTER_ADDR=127.0.0.1 -x MASTER_PORT=<free port>");
  }
}

/// Nothing while there is no file, or no port in it.
std::optional<std::uint16_t> read_port_file(const std::string& path) {
  std::ifstream in(path);
  std::string text;
  std::getline(in, text);
  return parse_port(text);
}

/// Waits for the file to appear: the watch is set before the first look, so nothing is missed.
std::uint16_t await_port_file(const std::string& path, Deadline deadline) {
  // The folder is watched, since the file is not there yet.
  const std::string folder = std::filesystem::path(path).parent_path();
  const ddprun::Fd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!watch || ::inotify_add_watch(watch.get(), folder.c_str(), IN_MOVED_TO) < 0) {
    throw StartError(folder + ": cannot be watched for rank 0's port");
  }
  for (;;) {
    if (const auto port = read_port_file(path)) {
      return *port;
    }
    if (!ddprun::net::wait_ready(watch.get(), POLLIN, deadline)) {
      throw StartError(path + ": rank 0 did not publish its port in time");
    }
    char events[4096];
    // Other files move into that folder, too: an event is only a reason to look again.
    (void)!::read(watch.get(), events, sizeof(events));
  }
}

/// Removes mpirun's port file when all have come, or when we give up.
struct Published {
  std::string path;
  ~Published() {
    if (!path.empty()) {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
  }
};

/// Rank 0 opens the lifeline, publishes where it is, and waits for all.
std::unique_ptr<PeerMonitor> host(const World& world, Deadline deadline) {
  // MASTER_PORT is free for rank 0 only where no store has it.
  const bool fixed_port = world.meeting == World::Meeting::by_port;
  auto lifeline =
      value_or_throw(PeerMonitor::listen(world.world_size, fixed_port ? world.master_port : 0));
  // To the end of this function: the file goes after a throw as well.
  Published published;
  if (world.meeting == World::Meeting::by_store) {
    publish_in_store(world, lifeline->port(), deadline);
  } else if (world.meeting == World::Meeting::by_file) {
    write_port_file(world.publish_path, lifeline->port());
    // Only this way leaves a file.
    published.path = world.publish_path;
  }
  // The port is published by now: from here on ranks may come.
  const Result<void> gathered = lifeline->gather(deadline);
  if (!gathered) {
    throw StartError(gathered.error().sentence());
  }
  return lifeline;
}

/// The others look up the port, and connect.
std::unique_ptr<PeerMonitor> join(const World& world, Deadline deadline) {
  std::uint16_t port = world.master_port;
  if (world.meeting == World::Meeting::by_store) {
    port = await_in_store(world, deadline);
  } else if (world.meeting == World::Meeting::by_file) {
    port = await_port_file(world.publish_path, deadline);
  }
  return value_or_throw(
      PeerMonitor::join(world.master_host, port, world.rank, world.world_size, deadline));
}

}  // namespace

std::unique_ptr<PeerMonitor> meet(const World& world, std::chrono::milliseconds timeout) {
  // One deadline for all steps: together they keep to the timeout.
  const Deadline deadline = std::chrono::steady_clock::now() + timeout;
  return world.rank == 0 ? host(world, deadline) : join(world, deadline);
}

}  // namespace ddp
