// GlooContext: Gloo's connections from this rank to every other one. Differs from Gloo's own
// connectFullMesh in that the addresses are handed in and that it can be cut short from outside,
// also while it connects.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace gloo {
class Context;
}

namespace ddp {

class GlooContext {
 public:
  /// Opens a port per peer at `address`, a numeric address of this machine; or on the interface
  /// that GLOO_SOCKET_IFNAME names. `connect_timeout` bounds each single connection. Throws
  /// StartError.
  GlooContext(int rank, int world_size, const std::string& address,
              std::chrono::milliseconds connect_timeout);
  ~GlooContext();
  GlooContext(const GlooContext&) = delete;
  GlooContext& operator=(const GlooContext&) = delete;

  /// One transport address for each rank to use; empty for this one.
  [[nodiscard]] std::vector<std::string> addresses() const;
  /// Connects, given what each rank has for this one. Throws what Gloo throws.
  void connect(const std::vector<std::string>& peers);
  /// Ends every pending and later operation here with an exception, and closes the connections, so
  /// that the same happens on the other ranks. Any thread, any number of times, never throws.
  void abort() noexcept;

  /// For Gloo's algorithms; valid after connect().
  [[nodiscard]] const std::shared_ptr<gloo::Context>& context() const;

 private:
  class Context;
  std::shared_ptr<Context> mesh_;
  std::shared_ptr<gloo::Context> context_;
};

}  // namespace ddp
