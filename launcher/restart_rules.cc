#include "launcher/restart_rules.h"

#include <algorithm>
#include <cctype>

#include "launcher/list_options.h"
#include "launcher/python_numbers.h"
#include "rendezvous/base/signal_name.h"

namespace ddprun {
namespace {

/// The class by its name; `value` of exit_code and signal. An exit code has 8 bits (wait(2)), and 0
/// is no fault. A signal needs its SIG here, so that no word for a class can name one.
bool read_class(std::string_view name, FaultRule& rule) {
  constexpr std::pair<std::string_view, FaultClass> kNames[] = {
      {"hang", FaultClass::hang},         {"oom", FaultClass::oom},
      {"start", FaultClass::start},       {"exit", FaultClass::any_exit},
      {"signal", FaultClass::any_signal}, {"node-lost", FaultClass::node_lost}};
  for (const auto& [known, kind] : kNames) {
    if (name == known) {
      rule.kind = kind;
      return true;
    }
  }
  if (name.starts_with("exit:")) {
    const auto code = read_int(name.substr(5));
    rule.kind = FaultClass::exit_code;
    rule.value = code.value_or(0);
    return code && *code >= 1 && *code <= 255;
  }
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  rule.kind = FaultClass::signal;
  rule.value = upper.starts_with("SIG") ? signal_number(upper) : 0;
  return rule.value > 0;
}

bool read_action(std::string_view name, FaultRule& rule) {
  constexpr std::pair<std::string_view, FaultAction> kNames[] = {
      {"restart", FaultAction::restart}, {"free", FaultAction::free}, {"fail", FaultAction::fail}};
  for (const auto& [known, action] : kNames) {
    if (name == known) {
      rule.action = action;
      return true;
    }
  }
  return false;
}

}  // namespace

/// The window bounds how fast the restarts of --max-restarts are spent; both limits hold.
Result<RestartWindow> parse_restart_window(std::string_view text, const std::string& where) {
  const auto slash = text.find('/');
  const auto restarts = read_int(text.substr(0, slash));
  const auto span =
      slash == std::string_view::npos ? std::nullopt : read_time(text.substr(slash + 1));
  if (!restarts || *restarts < 0 || !span) {
    return Error{in_quotes(text) + " is not a number of restarts in a time", where,
                 "write for example 3/1h: at most 3 restarts in any hour"};
  }
  return RestartWindow{*restarts, *span};
}

/// Until its first step a worker imports, compiles and loads data, so it needs far more time than
/// between two steps: without a START of its own, ten times as much, and 5 minutes at least.
Result<HangTimeouts> parse_hang_timeout(std::string_view text, const std::string& where) {
  using std::chrono::nanoseconds;
  if (text == "0") {
    return HangTimeouts{};
  }
  const auto comma = text.find(',');
  const auto progress = read_time(text.substr(0, comma));
  const auto start = comma == std::string_view::npos ? progress : read_time(text.substr(comma + 1));
  if (!progress || !start) {
    return Error{in_quotes(text) + " is not a time", where,
                 "write for example 10m, or 10m,1h: an hour until the first step; 0 for never"};
  }
  constexpr std::chrono::minutes kStartMin{5};
  constexpr int kStartTimes = 10;
  if (comma == std::string_view::npos) {
    return HangTimeouts{*progress, std::max<nanoseconds>(kStartTimes * *progress, kStartMin)};
  }
  if (*start < *progress) {
    return Error{in_quotes(text) + " allows the start less time than what follows", where,
                 "give START at least TIME"};
  }
  return HangTimeouts{*progress, *start};
}

/// Two rules for one class have no order that a user could rely on, so they are an error. A class
/// and one value of it (exit, exit:93) may stand side by side: the coordinator takes the narrower.
Result<std::vector<FaultRule>> parse_fault_table(std::string_view text, const std::string& where) {
  std::vector<FaultRule> rules;
  for (const std::string& part : split_commas(text)) {
    const auto equals = part.find('=');
    FaultRule rule;
    rule.text = part;
    if (equals == std::string::npos || !read_action(part.substr(equals + 1), rule)) {
      return Error{in_quotes(part) + " has no action", where,
                   "write CLASS=ACTION, where an action is restart, free or fail"};
    }
    if (!read_class(part.substr(0, equals), rule)) {
      return Error{in_quotes(part.substr(0, equals)) + " is not a class of faults", where,
                   "give oom, hang, start, exit, exit:CODE, signal, a signal by name (sigsegv) or "
                   "node-lost"};
    }
    const auto same = [&](const FaultRule& other) {
      return other.kind == rule.kind && other.value == rule.value;
    };
    if (std::any_of(rules.begin(), rules.end(), same)) {
      return Error{in_quotes(part.substr(0, equals)) + " is named twice", where,
                   "give each class one action"};
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace ddprun
