// PipeReader: reads a pipe on the loop, as fast as those take it that the bytes are for.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "agent/output/console.h"
#include "rendezvous/base/fd.h"

namespace ddprun {

class PipeReader {
 public:
  struct Events {
    std::function<void(std::string_view bytes)> on_bytes;
    std::function<void()> on_end;  ///< once: its writers have closed it
    /// A console that takes no more now, and is waited for; null: none. Empty: nobody is asked.
    std::function<Console*()> full = {};
  };

  /// Bytes in one call of on_bytes at most: what a pipe holds.
  static constexpr std::size_t kBytesPerTurn = 64 * 1024;

  PipeReader(boost::asio::io_context& io, Fd pipe, Events events);
  ~PipeReader();
  PipeReader(const PipeReader&) = delete;
  PipeReader& operator=(const PipeReader&) = delete;

  [[nodiscard]] bool is_at_end() const;
  /// It waits for a console.
  [[nodiscard]] bool is_paused() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
