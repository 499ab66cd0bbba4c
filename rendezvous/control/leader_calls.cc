#include "rendezvous/control/leader_calls.h"

#include <cstddef>
#include <utility>

#include "rendezvous/membership/membership.h"

namespace ddprun {

LeaderCalls LeaderCalls::begin(boost::asio::io_context& io, const Coordinator& leader,
                               const NodeDescription& node, const message::JobOptions& job,
                               std::vector<Endpoint> endpoints,
                               std::function<void(const message::Follow&)> outranked,
                               std::chrono::milliseconds patience) {
  const auto news = [&leader, &node] {
    return message::Follow{node.job_id, leader.membership().leadership().term(), node.addresses,
                           node.port};
  };
  LeaderCalls calls;
  calls.to_voters = LeaderAnnouncer::send(
      io, {news, [&leader] { return leader.absent_voters(); }, std::move(outranked)}, patience);
  calls.to_endpoints = EndpointCalls::begin(
      io,
      {std::move(endpoints),
       [news, job] {
         message::Follow call = news();
         call.to_endpoint = job;
         return call;
       },
       [&leader, wanted = static_cast<std::size_t>(job.max_nodes)] {
         return leader.membership().workers_here() < wanted || !leader.absent_voters().empty();
       }},
      patience);
  return calls;
}

}  // namespace ddprun
