#include "agent/attempt_store.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "agent/process/worker_environment.h"
#include "rendezvous/base/socket.h"

namespace ddprun {
namespace {

constexpr std::size_t kRefusedMax = 64;  // addresses that are remembered

}  // namespace

Result<std::uint16_t> AttemptStore::open(std::vector<std::string> addresses) {
  // The old one first: its clients belong to an attempt that is over.
  store_.reset();
  reserved_.reset();
  // PyTorch's rank 0 opens the store itself then, on this node: the port is kept for it.
  if (workers_host_store(own_environment(), spec_)) {
    auto reserved = ReservedPort::any();
    if (!reserved) {
      return reserved.error();
    }
    reserved_ = std::move(*reserved);
    return reserved_->port();
  }
  // Port 0 is for one node alone: nobody has to know the endpoint's, so the store has its own.
  if (spec_.backend == RendezvousBackend::static_ranks && spec_.endpoint.port != 0) {
    // Its clients connect to the endpoint's port, and come here by adopt().
    store_ = StoreServer::without_port(io_);
    admit_only(std::move(addresses));
    return spec_.endpoint.port;
  }
  auto store = StoreServer::listen(io_, 0);
  if (!store) {
    return store.error();
  }
  store_ = std::move(*store);
  admit_only(std::move(addresses));
  return store_->port();
}

/// The store's protocol is PyTorch's and knows no secret. A worker comes from the address by which
/// its agent came: the kernel chooses the same one for the same host.
void AttemptStore::admit_only(std::vector<std::string> addresses) {
  if (!spec_.credentials.any()) {
    return;
  }
  store_->admit_only([this, known = std::set<std::string>(addresses.begin(), addresses.end())](
                         const std::string& address) {
    if (net::is_loopback(address) || known.contains(address)) {
      return true;
    }
    if (refused_.size() < kRefusedMax && refused_.insert(address).second) {
      log_->warn("refused a client of the store from {}: no node of the job came from there",
                 address);
    }
    return false;
  });
}

void AttemptStore::adopt(Fd connection, const std::string& first_bytes) {
  // Without a store the connection is closed.
  if (store_) {
    store_->adopt(std::move(connection), first_bytes);
  }
}

}  // namespace ddprun
