// HangResponse: what an agent does about workers that make no progress: sees it (hang_detector.h),
// tells the coordinator where its workers stand, and, once the coordinator has every node stop for
// it, takes their stacks before they are asked to end. docs/hangs.md tells the whole story.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/hang/hang_detector.h"
#include "rendezvous/membership/hang_diagnosis.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

class Attempt;

class HangResponse {
 public:
  /// Where the workers stand, and a clause on who is still and for how long. Called once in an
  /// attempt, on the loop.
  using OnHang = std::function<void(std::vector<WorkerPosition> positions, std::string why)>;

  HangResponse(boost::asio::io_context& io, HangTimeouts timeouts, OnHang on_hang);
  ~HangResponse();
  HangResponse(const HangResponse&) = delete;
  HangResponse& operator=(const HangResponse&) = delete;

  /// From now on, until forget(): `attempt` has started.
  void watch(Attempt& attempt);
  /// To be called before the attempt goes away, and when it needs no watching any more.
  void forget();
  /// Returns where the workers stand, takes their stacks, and then calls `end` on the loop; not
  /// when forget() comes before. Also without a watch. Once in an attempt.
  std::vector<WorkerPosition> look_closely(Attempt& attempt, std::function<void()> end);
  /// It takes their stacks, or has taken them.
  [[nodiscard]] bool looks() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
