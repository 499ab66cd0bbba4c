#include "agent/unable.h"

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <utility>

#include "agent/follower_options.h"
#include "rendezvous/control/join.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kPatience{2'000};

}  // namespace

void tell_unable(const JobSpec& spec, const Error& why, std::shared_ptr<spdlog::logger> log) {
  // No other node waits for this one's workers.
  if (spec.max_nodes == 1 || spec.witness) {
    return;
  }
  SearchRequest request;
  request.endpoints = {spec.endpoint};
  request.endpoints.insert(request.endpoints.end(), spec.more_endpoints.begin(),
                           spec.more_endpoints.end());
  request.node = describe(spec, {});
  request.node.unable = why.sentence();
  // It must not become the coordinator of a job of which it cannot be part.
  request.is_host = false;
  request.join_timeout = kPatience;
  // A loop of its own, since the agent's does not exist yet.
  boost::asio::io_context io{1};
  const JoinHandle joining = join_endpoint(
      io, std::move(request), spec.credentials, [&io](const Result<Joined>&) { io.stop(); },
      std::move(log));
  io.run_for(kPatience);
}

}  // namespace ddprun
