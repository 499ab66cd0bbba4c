#include "agent/host/compared_options.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "agent/host/compared_variables.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// As the user gave them, so that the table shows what to change.
std::string text_of(const std::vector<FaultRule>& rules) {
  std::string text;
  for (const FaultRule& rule : rules) {
    text += (text.empty() ? "" : ",") + rule.text;
  }
  return text.empty() ? "<none>" : text;
}

std::string text_of(const std::optional<RestartWindow>& window) {
  return window ? fmt::format("{}/{}", window->restarts, exact_seconds_text(window->span))
                : "<none>";
}

std::string text_of(ScaleUp when) {
  switch (when) {
    case ScaleUp::now:
      return "now";
    case ScaleUp::at_snapshot:
      return "at-snapshot";
    case ScaleUp::never:
      break;
  }
  return "never";
}

}  // namespace

/// In the order of kOptionFacts. Values that are not given have a text of their own: a node that
/// leaves an option out differs from one that gives it.
NodeEnvironment compared_options(const JobSpec& spec) {
  const RestartRules& rules = spec.restarts;
  NodeEnvironment facts{
      {"--heartbeat-timeout", exact_seconds_text(spec.heartbeat_timeout)},
      {"--on", bounded_value(text_of(rules.on_fault))},
      {"--restart-window", text_of(rules.window)},
      {"--no-progress-limit", std::to_string(rules.no_progress_max)},
      {"--scale-up", text_of(spec.scale_up)},
  };
  std::erase_if(facts, [&](const EnvironmentFact& fact) {
    return is_named_by(fact.name, spec.same_env_ignore);
  });
  return facts;
}

}  // namespace ddprun
