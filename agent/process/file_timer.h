// FileTimer: PyTorch's file timer watchdog (TORCHELASTIC_ENABLE_FILE_TIMER): workers write to a
// FIFO by when they want to be done with something, and are killed when they are not. Waits for the
// FIFO and for the next expiry; nothing is polled.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/process/timer_table.h"
#include "rendezvous/base/result.h"

namespace boost::asio {
class io_context;
}
namespace spdlog {
class logger;
}

namespace ddprun {

class FileTimer {
 public:
  /// Called on the loop for each process with an expired timer, also where no signal is to be sent.
  using OnExpired = std::function<void(const ExpiredTimer&)>;

  /// Makes the FIFO at `path`, in place of one that was left there; one that somebody reads from,
  /// or anything else there, is an error.
  /// Empty: a new name under the temporary directory. It is removed at the end.
  static Result<std::unique_ptr<FileTimer>> create(boost::asio::io_context& io, std::string path,
                                                   OnExpired on_expired,
                                                   std::shared_ptr<spdlog::logger> log);
  ~FileTimer();
  FileTimer(const FileTimer&) = delete;
  FileTimer& operator=(const FileTimer&) = delete;

  [[nodiscard]] const std::string& path() const;
  /// The processes of an attempt are gone, and their timers with them: a pid may come again.
  void forget_all();

 private:
  struct Impl;

 public:
  /// For create() alone: nobody else can name Impl.
  explicit FileTimer(std::shared_ptr<Impl> impl);

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
