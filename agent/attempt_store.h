// AttemptStore: the store of the newest attempt, as its coordinator's node hosts it: a key space
// that is fresh for every attempt, or a port for workers that host one by themselves.
#pragma once

#include <spdlog/logger.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/job_spec.h"
#include "agent/process/reserved_port.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/store/store_server.h"

namespace ddprun {

class AttemptStore {
 public:
  /// `spec` outlives it.
  AttemptStore(boost::asio::io_context& io, const JobSpec& spec,
               std::shared_ptr<spdlog::logger> log)
      : io_(io), spec_(spec), log_(std::move(log)) {}

  /// Closes the one before, and returns the port of the new one. With static ranks MASTER_PORT is
  /// the endpoint's own port: the coordinator hands store clients over to adopt(). In a job with a
  /// token only clients at these addresses, and on this host, are served.
  Result<std::uint16_t> open(std::vector<std::string> addresses);
  /// A connection that turned out to be a store client's, and what has been read from it.
  void adopt(Fd connection, const std::string& first_bytes);

 private:
  void admit_only(std::vector<std::string> addresses);

  boost::asio::io_context& io_;
  const JobSpec& spec_;
  std::shared_ptr<spdlog::logger> log_;
  std::set<std::string> refused_;  ///< addresses, each logged once
  std::unique_ptr<StoreServer> store_;
  std::optional<ReservedPort> reserved_;
};

}  // namespace ddprun
