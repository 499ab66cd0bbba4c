#include "agent/peer_loss_patterns.h"

#include <catch2/catch.hpp>

using namespace ddprun;

TEST_CASE("what PyTorch says of a peer that is gone is a victim's sign") {
  CHECK(
      names_lost_peer("RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] "
                      "Connection closed by peer [127.0.0.1]:54321"));
  CHECK(
      names_lost_peer("RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] "
                      "Timed out waiting 2000ms for recv operation to complete"));
  CHECK(
      names_lost_peer("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp, "
                      "remote process exited or there was a network error, NCCL version 2.28.9"));
  CHECK(names_lost_peer("ddp::StartError: rank 3 ended while the ranks were gathering"));
  CHECK(names_lost_peer("torch.distributed.DistNetworkError: failed to recv, got 0 bytes"));
  CHECK(names_lost_peer("torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /x"));
  CHECK(
      names_lost_peer("[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2"));
}

TEST_CASE("a failure of a worker's own is none") {
  CHECK_FALSE(names_lost_peer("ValueError: too many values to unpack"));
  CHECK_FALSE(names_lost_peer("torch.OutOfMemoryError: CUDA out of memory."));
  CHECK_FALSE(
      names_lost_peer("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed."));
  CHECK_FALSE(names_lost_peer(""));
}
