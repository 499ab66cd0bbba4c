// TurnedAway: the log lines about who came to a coordinator and was sent away. Internal to control.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

namespace spdlog {
class logger;
}

namespace ddprun {

/// Each line is logged once, however often its machine returns. After kRememberedMax different ones
/// no new one is, so strangers can fill neither the memory nor the log.
class TurnedAway {
 public:
  explicit TurnedAway(std::shared_ptr<spdlog::logger> log) : log_(std::move(log)) {}

  void speaks_no_protocol(const std::string& address, bool silent);
  void rejected(const std::string& address, const std::string& why);
  /// Before it could say anything: it has not the job's credentials.
  void refused(const std::string& address, const std::string& why);
  /// At the end of the job.
  void sum_up() const;

 private:
  bool is_new(const std::string& line);

  std::shared_ptr<spdlog::logger> log_;
  std::set<std::string> told_;
  std::uint64_t refused_ = 0;  ///< connections
};

}  // namespace ddprun
