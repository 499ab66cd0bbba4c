// NoticeWatch: asks all that may announce the end of this machine for such a notice: metadata
// services, files, and --deadline, which its user announces in advance. The first one counts, and
// ends the watch. Each trouble is told once, and the job goes on. Lives on the agent's loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/job_spec.h"

namespace boost::asio {
class io_context;
}
namespace spdlog {
class logger;
}

namespace ddprun {

class NoticeWatch {
 public:
  /// A clause: "aws: terminate of the spot instance at ..."; empty: the deadline has come. On the
  /// loop.
  using OnNotice = std::function<void(const std::string& notice)>;

  NoticeWatch(boost::asio::io_context& io, const JobSpec& spec, OnNotice on_notice,
              std::shared_ptr<spdlog::logger> log);
  ~NoticeWatch();
  NoticeWatch(const NoticeWatch&) = delete;
  NoticeWatch& operator=(const NoticeWatch&) = delete;

  /// Nothing is asked any more, and no notice comes. May be called again.
  void end();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  ///< null: nothing is watched
};

}  // namespace ddprun
