// Which of the endpoints that a user named are this machine. Internal to control.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "rendezvous/base/endpoint.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

using OnLocalKnown = std::function<void(const std::vector<bool>&)>;

/// Calls `done` once with a flag for each endpoint: whether its host is an address of this machine,
/// or a name that means one. Names are asked for, `patience` long in all: a name without an
/// answer by then is taken for another machine's. Without names `done` is called at once.
void resolve_local(boost::asio::io_context& io, const std::vector<Endpoint>& endpoints,
                   std::chrono::milliseconds patience, OnLocalKnown done);

}  // namespace ddprun
