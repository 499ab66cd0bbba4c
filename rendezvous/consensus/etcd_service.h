// EtcdService: etcd 3 as the consensus service of one job. Three keys below ddprun/JOB/:
//
//   leader  the LeaderRecord, with a lease: it goes when its owner renews it no more
//   term    the newest term that anybody led in
//   state   the replicated state; its lease ends when nobody has led for the join timeout
//
// lead() is one transaction (leader is as it was seen, term is: write both), and so is commit()
// (leader is still mine: write state). docs/etcd.md.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "rendezvous/consensus/consensus_service.h"
#include "rendezvous/consensus/etcd_client.h"

namespace ddprun {

struct EtcdServiceOptions {
  EtcdAccess access;
  std::string job_id;
  /// The leader's lease is longer by kServiceAbsence.
  std::chrono::milliseconds heartbeat_timeout{3'000};
  /// How long the state of a job is kept that nobody leads.
  std::chrono::milliseconds join_timeout{600'000};
};

std::unique_ptr<ConsensusService> make_etcd_service(boost::asio::io_context& io,
                                                    EtcdServiceOptions options);

}  // namespace ddprun
