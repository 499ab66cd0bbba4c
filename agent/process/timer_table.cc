#include "agent/process/timer_table.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace ddprun {

/// PyTorch's FileTimerRequest as JSON (torch/distributed/elastic/timer/file_based_local_timer.py).
/// Any process that can open the FIFO may write to it, so each field is checked.
std::optional<TimerRequest> parse_timer_request(std::string_view line, std::string& why) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) {
    why = "it is no JSON object";
    return std::nullopt;
  }
  const auto pid = json.find("pid");
  const auto scope = json.find("scope_id");
  const auto time = json.find("expiration_time");
  const auto signal = json.find("signal");
  if (pid == json.end() || !pid->is_number_integer() || pid->get<std::int64_t>() <= 0 ||
      pid->get<std::int64_t>() > std::numeric_limits<pid_t>::max()) {
    why = "it has no pid";
    return std::nullopt;
  }
  if (scope == json.end() || !scope->is_string()) {
    why = "it has no scope_id";
    return std::nullopt;
  }
  if (time == json.end() || !time->is_number() || !std::isfinite(time->get<double>())) {
    why = "it has no expiration_time";
    return std::nullopt;
  }
  TimerRequest request;
  request.pid = pid->get<pid_t>();
  request.scope = scope->get<std::string>();
  constexpr double kLatest = 9.0e12;  // microseconds of that fit
  const double seconds = std::min(time->get<double>(), kLatest);
  // PyTorch's client releases a timer by a negative time.
  if (seconds >= 0) {
    request.expires = WallTime(std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6)));
  }
  if (signal != json.end() && signal->is_number_integer()) {
    const auto number = signal->get<std::int64_t>();
    // Linux has the signals 1 to 64; with any other number kill(2) only fails.
    request.signal = number > 0 && number < 65 ? static_cast<int>(number) : 0;
  }
  return request;
}

bool TimerTable::apply(const TimerRequest& request) {
  const Name key(request.pid, request.scope);
  if (const auto found = timers_.find(key); found != timers_.end()) {
    erase(found);
  }
  if (!request.expires) {
    return true;
  }
  // After the old timer of this name is gone: a full table still lets a worker replace its own.
  if (timers_.size() >= kTimersMax) {
    return false;
  }
  timers_.emplace(key, Timer{*request.expires, request.signal});
  by_expiry_.emplace(*request.expires, key);
  return true;
}

std::vector<ExpiredTimer> TimerTable::take_expired(WallTime now) {
  std::map<pid_t, ExpiredTimer> by_process;
  for (const auto& [expires, key] : by_expiry_) {
    if (expires > now) {
      break;
    }
    const Timer& timer = timers_.at(key);
    auto [found, first] = by_process.try_emplace(
        key.first, ExpiredTimer{key.first, key.second, timer.signal, now - expires});
    if (!first && found->second.signal == 0 && timer.signal > 0) {
      found->second = {key.first, key.second, timer.signal, now - expires};
    }
  }
  std::vector<ExpiredTimer> expired;
  // As in PyTorch's watchdog: the whole process is ended, so its other timers go, too.
  for (auto& [pid, timer] : by_process) {
    forget(pid);
    expired.push_back(std::move(timer));
  }
  return expired;
}

void TimerTable::clear() {
  timers_.clear();
  by_expiry_.clear();
}

void TimerTable::forget(pid_t pid) {
  for (auto timer = timers_.lower_bound({pid, {}});
       timer != timers_.end() && timer->first.first == pid;) {
    erase(timer++);
  }
}

std::optional<WallTime> TimerTable::next_expiry() const {
  return by_expiry_.empty() ? std::nullopt : std::optional(by_expiry_.begin()->first);
}

void TimerTable::erase(std::map<Name, Timer>::iterator timer) {
  by_expiry_.erase({timer->second.expires, timer->first});
  timers_.erase(timer);
}

}  // namespace ddprun
