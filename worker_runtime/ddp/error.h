// The exceptions of the worker runtime. A training loop cannot go on without its peers, so what
// goes wrong at this edge is thrown, not returned: let it reach ddp::record(), which writes the
// error file and ends the worker with status 1, so that the agent can start the next attempt.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "ddp/export.h"

namespace ddp {

/// Root of all of them. what() is one sentence for a person: what, where, what to do.
class DDP_EXPORT Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~Error() override;
};

/// The caller asked for something that makes no sense: a wrong shape, type, rank or option. Thrown
/// before anything is sent, so the group stays usable.
class DDP_EXPORT InvalidArgument : public Error {
 public:
  using Error::Error;
  ~InvalidArgument() override;
};

/// For main functions of their own to throw: another attempt would fail in the same way (a wrong
/// option, missing data), so the launcher ends the job whatever restarts are left.
class DDP_EXPORT DoNotRetry : public Error {
 public:
  /// `exit_status`: what ddp::record() returns for it, 1 to 255. Anything else becomes 1: the
  /// kernel keeps eight bits, and 256 would be a success.
  explicit DoNotRetry(const std::string& what, int exit_status = 1);
  ~DoNotRetry() override;

  [[nodiscard]] int exit_status() const { return exit_status_; }

 private:
  int exit_status_;
};

/// The worker could not join its world: a missing or contradictory variable, a store that does not
/// answer, a peer that never came.
class DDP_EXPORT StartError : public Error {
 public:
  using Error::Error;
  ~StartError() override;
};

/// A GPU or its driver failed, ran out of memory, or is not there.
class DDP_EXPORT DeviceError : public Error {
 public:
  using Error::Error;
  ~DeviceError() override;
};

/// An operation between ranks failed. From then on the group is dead: every later operation on it
/// throws an OperationError at once, with the reason. Of this very type: another rank issued a
/// different operation, or gave a tensor of another size or type.
class DDP_EXPORT OperationError : public Error {
 public:
  OperationError(const std::string& what, std::string operation, std::uint64_t sequence,
                 std::optional<int> peer);
  ~OperationError() override;

  /// "all_reduce", "broadcast", ...
  [[nodiscard]] const std::string& operation() const { return operation_; }
  /// Number of the operation in its group, in order of issue, counted from 1; the first ones are
  /// init()'s own. The same on every rank for
  /// collectives as long as all ranks issue the same ones; send and recv have a count of their own.
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  /// The rank that failed or was waited for, where known.
  [[nodiscard]] std::optional<int> peer() const { return peer_; }

 private:
  std::string operation_;
  std::uint64_t sequence_;
  std::optional<int> peer_;
};

/// Another rank is gone, or has given the group up: its process ended, its connection broke, or an
/// operation failed there (a timeout, say, of which each rank but the first learns so). This worker
/// is a victim, not the cause; ddp::record() says so in the error file.
class DDP_EXPORT PeerLost : public OperationError {
 public:
  using OperationError::OperationError;
  ~PeerLost() override;
};

/// The operation did not finish within the group's timeout: a peer hangs, is stopped, or did not
/// issue the same operation.
class DDP_EXPORT Timeout : public OperationError {
 public:
  using OperationError::OperationError;
  ~Timeout() override;
};

/// The group was closed by this very process (abort() or the end of its life) under the operation.
class DDP_EXPORT Aborted : public OperationError {
 public:
  using OperationError::OperationError;
  ~Aborted() override;
};

}  // namespace ddp
