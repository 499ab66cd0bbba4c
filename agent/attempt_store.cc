#include "agent/attempt_store.h"

#include <utility>

#include "agent/process/worker_environment.h"

namespace ddprun {

Result<std::uint16_t> AttemptStore::open() {
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
  if (spec_.backend == RendezvousBackend::static_ranks) {
    // Its clients connect to the endpoint's port, and come here by adopt().
    store_ = StoreServer::without_port(io_);
    return spec_.endpoint.port;
  }
  auto store = StoreServer::listen(io_, 0);
  if (!store) {
    return store.error();
  }
  store_ = std::move(*store);
  return store_->port();
}

void AttemptStore::adopt(Fd connection, const std::string& first_bytes) {
  // Without a store the connection is closed.
  if (store_) {
    store_->adopt(std::move(connection), first_bytes);
  }
}

}  // namespace ddprun
