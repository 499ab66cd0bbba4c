#include "worker_runtime/collectives/gloo_context.h"

#include <gloo/common/error.h>
#include <gloo/context.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <atomic>
#include <cstdlib>

#include "ddp/error.h"

namespace ddp {

/// Gloo lets a context be filled only by a derived class.
class GlooContext::Context : public gloo::Context {
 public:
  Context(int own_rank, int world_size, std::shared_ptr<gloo::transport::Device> device,
          std::chrono::milliseconds connect_timeout)
      : gloo::Context(own_rank, world_size) {
    device_ = std::move(device);
    transportContext_ = device_->createContext(rank, size);
    // Gloo waits five times the timeout of a pair for its connection. Operations have timeouts of
    // their own, given with each.
    transportContext_->setTimeout(connect_timeout / 5);
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank) {
        // A pair listens as soon as it is made: its address can be sent before any rank connects.
        transportContext_->createPair(peer);
      }
    }
  }

  void connect(const std::vector<std::string>& peers) {
    for (int peer = 0; peer < size && !aborted_; ++peer) {
      if (peer != rank) {
        const std::string& address = peers[static_cast<std::size_t>(peer)];
        getPair(peer)->connect(std::vector<char>(address.begin(), address.end()));
      }
    }
    // An abort in between is not seen by Gloo's own connect().
    if (aborted_) {
      throw gloo::IoException("the connection was given up");
    }
  }

  void abort() noexcept {
    aborted_ = true;
    try {
      // Gloo has no abort. But when a wait on any buffer times out, it fails every pending
      // operation of the context and closes all its connections; so one such wait is provoked.
      char nothing = 0;
      const auto buffer = transportContext_->createUnboundBuffer(&nothing, sizeof(nothing));
      buffer->waitRecv(std::chrono::milliseconds(1));
    } catch (const std::exception&) {
      // The expected timeout.
    }
  }

 private:
  std::atomic<bool> aborted_{false};
};

GlooContext::GlooContext(int rank, int world_size, const std::string& address,
                         std::chrono::milliseconds connect_timeout) {
  gloo::transport::tcp::attr attributes;
  // PyTorch's variable for the same choice; ddprun sets it where the user has not.
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0') {
    attributes.iface = interface;
  } else {
    // Numeric, as rank 0 saw this host: Gloo then asks no name service.
    attributes.hostname = address;
  }
  try {
    mesh_ = std::make_shared<Context>(
        rank, world_size, gloo::transport::tcp::CreateDevice(attributes), connect_timeout);
    context_ = mesh_;
  } catch (const std::exception& error) {
    throw StartError("Gloo cannot use " +
                     (attributes.iface.empty() ? "the address " + address
                                               : "the interface " + attributes.iface) +
                     ": " + error.what());
  }
}

GlooContext::~GlooContext() = default;

std::vector<std::string> GlooContext::addresses() const {
  std::vector<std::string> result(static_cast<std::size_t>(mesh_->size));
  for (int peer = 0; peer < mesh_->size; ++peer) {
    if (peer != mesh_->rank) {
      const std::vector<char> bytes = mesh_->getPair(peer)->address().bytes();
      // Opaque bytes: only Gloo's connect() on the other rank reads them.
      result[static_cast<std::size_t>(peer)].assign(bytes.begin(), bytes.end());
    }
  }
  return result;
}

void GlooContext::connect(const std::vector<std::string>& peers) {
  mesh_->connect(peers);
}
void GlooContext::abort() noexcept {
  mesh_->abort();
}
const std::shared_ptr<gloo::Context>& GlooContext::context() const {
  return context_;
}

}  // namespace ddp
