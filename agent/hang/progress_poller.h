// ProgressReport: looks at what the workers of an attempt have told (contract/progress_channel),
// and passes news on while they run. Times are the workers' own, so a look need not be soon to be
// exact: the pace is that at which people may want to know, and nearly nothing where workers tell
// nothing. Lives on the agent's loop.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "rendezvous/membership/world.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

class ProgressReport {
 public:
  using Read = std::function<TrainingProgress()>;
  using Tell = std::function<void(const TrainingProgress&)>;

  explicit ProgressReport(boost::asio::io_context& io);
  ~ProgressReport();

  /// Workers of a new attempt run. Neither function is called after end().
  void begin(Read read, Tell tell);
  void end();

  /// Pure: what others may want to know at once. Steps alone are no news.
  static bool is_news(const TrainingProgress& before, const TrainingProgress& now);
  /// Pure: the pause until the next look, after one of `pause`. `told`: workers have reported.
  static std::chrono::milliseconds pause_after(std::chrono::milliseconds pause, bool told);

 private:
  void look_later();
  void look();

  struct Timer;
  std::unique_ptr<Timer> timer_;
  Read read_;
  Tell tell_;
  TrainingProgress told_;
  std::chrono::milliseconds pause_{};
  int looks_without_news_ = 0;
};

}  // namespace ddprun
