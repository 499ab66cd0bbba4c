// A stand-in for libnccl, for tests of error paths alone: it has the functions that the runtime
// calls, moves host memory between real processes of one machine, and does wrong what faults.h
// says. Opened by DDPRUN_NCCL_LIBRARY, never installed.
//   DDPRUN_STANDIN_NCCL_TRACE=FILE   a line "RANK NAME" for each call but polls, added to FILE;
//                                    "RANK WRONG ..." where the runtime breaks a rule of NCCL's
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/standin/board.h"
#include "tests/standin/faults.h"
#include "tests/standin/operations.h"
#include "tests/standin/stream.h"
#include "worker_runtime/cuda/nccl_abi.h"

using ddp::nccl::Comm;
using ddp::nccl::Config;
using ddp::nccl::DataType;
using ddp::nccl::RedOp;
using ddp::nccl::Result;
using ddp::nccl::UniqueId;
using namespace ddp_standin;

namespace ddp_standin {
namespace {

/// A communicator's inside; work on streams may outlive the handle.
struct Inside {
  Inside(Board& at, int of, int among)
      : board(at), seat(at, of, among, aborted), rank(of), size(among) {}
  Board& board;
  std::atomic<bool> aborted{false};
  std::atomic<int> queued{0};
  Seat seat;  ///< of the stream's thread
  int rank;
  int size;
};

enum class Doing { nothing, connecting, taking, finalizing };

int rank_of_process = -1;
std::atomic<int> threads_inside{0};
int group_depth = 0;

void trace(const std::string& what) {
  const char* file = std::getenv("DDPRUN_STANDIN_NCCL_TRACE");
  if (file == nullptr || *file == 0) {
    return;
  }
  const std::string line = std::to_string(rank_of_process) + " " + what + "\n";
  const int fd = ::open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || ::write(fd, line.data(), line.size()) < 0) {
    std::abort();
  }
  ::close(fd);
}

/// The time that a thread spends in a call: two at once break a rule.
class Call {
 public:
  explicit Call(const std::string& name, bool traced = true) {
    if (++threads_inside > 1) {
      trace("WRONG " + name + " while another thread is inside");
    }
    if (traced) {
      trace(name);
    }
  }
  ~Call() { --threads_inside; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
};

}  // namespace
}  // namespace ddp_standin

struct ddp::nccl::Comm {
  std::shared_ptr<Inside> inside;
  Doing doing = Doing::nothing;
  Result error = Result::success;  ///< the asynchronous one
  int polls_to_error = 0;          ///< one that comes; 0: none
  bool ended = false;
  int polls_left = 0;
  int operations = 0;
  int groups = 0;
};

namespace ddp_standin {
namespace {

std::string last_error;

Result refuse(Result result, const std::string& why) {
  last_error = why;
  return result;
}

/// Handles stay to the end of the process, so that the use of one that has ended is seen.
std::vector<std::unique_ptr<Comm>>& handles() {
  static std::vector<std::unique_ptr<Comm>> all;
  return all;
}

bool usable(Comm* comm, const char* name) {
  if (comm == nullptr || comm->ended) {
    trace(std::string("WRONG ") + name + " of a communicator that has ended");
    return false;
  }
  return true;
}

struct Planned {
  Comm* comm;
  CUstream_st* stream;
  std::function<bool(Inside&)> work;
  bool message;
};
std::vector<Planned> planned;
Result group_result = Result::success;

Result plan(const char* name, Comm* comm, CUstream_st* stream, bool message,
            std::function<bool(Inside&)> work) {
  const Call call(name);
  if (!usable(comm, name) || group_depth == 0) {
    return refuse(Result::invalid_usage, "not in a group, or of no communicator");
  }
  const int rank = comm->inside->rank;
  const int count = ++comm->operations;
  if (fault_at("call-fails", rank, count)) {
    return group_result = refuse(Result::invalid_usage, "the stand-in refuses this call");
  }
  const bool fails = fault_at("async-error", rank, count);
  if (fails) {
    last_error = "the stand-in lost a connection";
    comm->polls_to_error = 5;  // after NCCL has taken the operation
  }
  if (fails || fault_at("hangs", rank, count)) {
    work = [](Inside& inside) {
      inside.aborted.wait(false);
      return false;
    };
  }
  planned.push_back({comm, stream, std::move(work), message});
  return Result::success;
}

Result start_planned() {
  // Posts come first, so that two ranks may swap.
  std::stable_sort(planned.begin(), planned.end(),
                   [](const Planned& a, const Planned& b) { return a.message && !b.message; });
  for (Planned& one : planned) {
    ++one.comm->inside->queued;
    one.stream->queue([inside = one.comm->inside, work = std::move(one.work)] {
      if (!inside->aborted) {
        work(*inside);
      }
      --inside->queued;
    });
  }
  Comm* const comm = planned.empty() ? nullptr : planned.front().comm;
  planned.clear();
  if (comm == nullptr) {
    return Result::success;
  }
  const int rank = comm->inside->rank;
  const int count = ++comm->groups;
  if (fault_at("dies", rank, count)) {
    ::raise(SIGKILL);
  }
  comm->doing = Doing::taking;
  // As by a real one: it is not done when the call returns.
  comm->polls_left = fault_at("busy", rank, count) ? -1 : 2;
  return Result::in_progress;
}

}  // namespace
}  // namespace ddp_standin

#define STANDIN_EXPORT extern "C" __attribute__((visibility("default")))

STANDIN_EXPORT Result ncclGetVersion(int* version) {
  const Call call("ncclGetVersion");
  *version = fault("version", -1).value_or(23102);
  return Result::success;
}

STANDIN_EXPORT Result ncclGetUniqueId(UniqueId* id) {
  const Call call("ncclGetUniqueId");
  BoardPath path{};
  if (fault("unique-id-fails", 0) || !make_board(path)) {
    return refuse(Result::system_error, "no interface was found");
  }
  std::memcpy(id->bytes, path.text, sizeof path.text);
  return Result::success;
}

STANDIN_EXPORT Result ncclCommInitRankConfig(Comm** comm, int size, UniqueId id, int rank,
                                             Config* config) {
  rank_of_process = rank;
  const Call call("ncclCommInitRankConfig");
  BoardPath path{};
  std::memcpy(path.text, id.bytes, sizeof path.text);
  Board* const board = open_board(path);
  *comm = nullptr;
  if (config->size < sizeof(Config) || config->magic != 0xcafebeef || config->blocking != 0) {
    return refuse(Result::invalid_argument, "a configuration of no known form, or blocking");
  }
  if (fault("init-fails", rank) || board == nullptr || size > kRanksMax) {
    return refuse(Result::unhandled_cuda_error, "the stand-in's device is out of memory");
  }
  handles().push_back(std::make_unique<Comm>());
  *comm = handles().back().get();
  (*comm)->inside = std::make_shared<Inside>(*board, rank, size);
  (*comm)->doing = Doing::connecting;
  if (fault("init-error", rank)) {
    (*comm)->error = refuse(Result::system_error, "the stand-in's socket refused");
  } else if (!fault("init-hangs", rank)) {
    ++board->joined;
  }
  return Result::in_progress;
}

STANDIN_EXPORT Result ncclCommGetAsyncError(Comm* comm, Result* error) {
  const Call call("ncclCommGetAsyncError", false);
  if (!usable(comm, "ncclCommGetAsyncError")) {
    return Result::invalid_argument;
  }
  bool done = true;
  switch (comm->doing) {
    case Doing::nothing:
      if (comm->polls_to_error > 0 && --comm->polls_to_error == 0) {
        comm->error = Result::remote_error;
      }
      break;
    case Doing::connecting:
      done = comm->inside->board.joined == comm->inside->size;
      break;
    case Doing::taking:
      done = comm->polls_left == 0 || (comm->polls_left > 0 && --comm->polls_left == 0);
      break;
    case Doing::finalizing:
      done = comm->inside->queued == 0 && !fault("finalize-hangs", comm->inside->rank);
      break;
  }
  if (done) {
    comm->doing = Doing::nothing;
  }
  *error = comm->error != Result::success ? comm->error
           : done                         ? Result::success
                                          : Result::in_progress;
  return Result::success;
}

STANDIN_EXPORT Result ncclCommFinalize(Comm* comm) {
  const Call call("ncclCommFinalize");
  if (!usable(comm, "ncclCommFinalize") || group_depth > 0) {
    return Result::invalid_usage;
  }
  comm->doing = Doing::finalizing;
  return Result::in_progress;
}

STANDIN_EXPORT Result ncclCommDestroy(Comm* comm) {
  const Call call("ncclCommDestroy");
  if (!usable(comm, "ncclCommDestroy")) {
    return Result::invalid_argument;
  }
  if (comm->inside->queued != 0) {
    trace("WRONG ncclCommDestroy before the communicator was finalized");
  }
  comm->ended = true;
  return Result::success;
}

#ifndef STANDIN_WITHOUT_ABORT
STANDIN_EXPORT Result ncclCommAbort(Comm* comm) {
  const Call call("ncclCommAbort");
  if (!usable(comm, "ncclCommAbort")) {
    return Result::invalid_argument;
  }
  comm->ended = true;
  if (fault("abort-blocks", comm->inside->rank)) {
    for (;;) {
      ::pause();
    }
  }
  comm->inside->aborted = true;
  comm->inside->aborted.notify_all();
  return Result::success;
}
#endif

STANDIN_EXPORT const char* ncclGetErrorString(Result result) {
  switch (result) {
    case Result::success:
      return "no error";
    case Result::unhandled_cuda_error:
      return "unhandled cuda error";
    case Result::system_error:
      return "unhandled system error";
    case Result::internal_error:
      return "internal error";
    case Result::invalid_argument:
      return "invalid argument";
    case Result::invalid_usage:
      return "invalid usage";
    case Result::remote_error:
      return "remote process exited or there was a network error";
    case Result::in_progress:
      break;
  }
  return "NCCL operation in progress";
}

STANDIN_EXPORT const char* ncclGetLastError(Comm*) {
  return last_error.c_str();
}

STANDIN_EXPORT Result ncclGroupStart() {
  const Call call("ncclGroupStart");
  ++group_depth;
  return Result::success;
}

STANDIN_EXPORT Result ncclGroupEnd() {
  const Call call("ncclGroupEnd");
  if (group_depth == 0 || --group_depth > 0) {
    return group_depth == 0 ? Result::invalid_usage : Result::success;
  }
  if (group_result != Result::success) {
    planned.clear();
    return std::exchange(group_result, Result::success);
  }
  return start_planned();
}

STANDIN_EXPORT Result ncclAllReduce(const void* in, void* out, std::size_t count, DataType type,
                                    RedOp op, Comm* comm, CUstream_st* stream) {
  return plan("ncclAllReduce", comm, stream, false, [=](Inside& inside) {
    return all_reduce(inside.seat, {in, out, count, type}, op, inside.size);
  });
}

STANDIN_EXPORT Result ncclBroadcast(const void* in, void* out, std::size_t count, DataType type,
                                    int root, Comm* comm, CUstream_st* stream) {
  return plan("ncclBroadcast", comm, stream, false, [=](Inside& inside) {
    return broadcast(inside.seat, {in, out, count, type}, root);
  });
}

STANDIN_EXPORT Result ncclAllGather(const void* in, void* out, std::size_t count, DataType type,
                                    Comm* comm, CUstream_st* stream) {
  return plan("ncclAllGather", comm, stream, false, [=](Inside& inside) {
    return all_gather(inside.seat, {in, out, count, type});
  });
}

STANDIN_EXPORT Result ncclReduceScatter(const void* in, void* out, std::size_t count, DataType type,
                                        RedOp op, Comm* comm, CUstream_st* stream) {
  return plan("ncclReduceScatter", comm, stream, false, [=](Inside& inside) {
    return reduce_scatter(inside.seat, {in, out, count, type}, op, inside.rank, inside.size);
  });
}

STANDIN_EXPORT Result ncclSend(const void* in, std::size_t count, DataType type, int to, Comm* comm,
                               CUstream_st* stream) {
  return plan("ncclSend", comm, stream, true, [=](Inside& inside) {
    return send(inside.seat, {in, nullptr, count, type}, to);
  });
}

STANDIN_EXPORT Result ncclRecv(void* out, std::size_t count, DataType type, int from, Comm* comm,
                               CUstream_st* stream) {
  return plan("ncclRecv", comm, stream, false, [=](Inside& inside) {
    return receive(inside.seat, {out, out, count, type}, from);
  });
}
