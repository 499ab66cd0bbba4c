// AttemptStore: the store of the newest attempt, as its coordinator's node hosts it: a key space
// that is fresh for every attempt, or a port for workers that host one by themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "agent/job_spec.h"
#include "agent/process/reserved_port.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/store/store_server.h"

namespace ddprun {

class AttemptStore {
 public:
  /// `spec` outlives it.
  AttemptStore(boost::asio::io_context& io, const JobSpec& spec) : io_(io), spec_(spec) {}

  /// Closes the one before, and returns the port of the new one. With static ranks MASTER_PORT is
  /// the endpoint's own port: the coordinator hands store clients over to adopt().
  Result<std::uint16_t> open();
  /// A connection that turned out to be a store client's, and what has been read from it.
  void adopt(Fd connection, const std::string& first_bytes);

 private:
  boost::asio::io_context& io_;
  const JobSpec& spec_;
  std::unique_ptr<StoreServer> store_;
  std::optional<ReservedPort> reserved_;
};

}  // namespace ddprun
