#include "launcher/hosts/agent_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>

#include "launcher/option_table.h"
#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// Each agent gets them by hosts_plan.cc: what the shell was given is checked there, and may be a
/// range, or less than the hosts. The token travels as a variable: its file is the shell's.
constexpr std::array<std::string_view, 4> kOwn = {"nnodes", "node-rank", "no-scheduler",
                                                  "job-token-file"};

/// Lists of a few dozen names, read once.
template <class Range>
bool has(const Range& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The word of one row; none for a flag that a variable has turned off. {fmt} writes a number with
/// as many digits as bring it back.
std::optional<std::string> word_of(const Options& options, const OptionRow& row) {
  const std::string name = "--" + std::string(row.name);
  return std::visit(
      [&](auto field) -> std::optional<std::string> {
        const auto& value = options.*field;
        using Value = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>) {
          // Off can be said by a variable alone, and is the default.
          return value ? std::optional(name) : std::nullopt;
        } else if constexpr (std::is_same_v<Value, std::string> || std::is_arithmetic_v<Value>) {
          return fmt::format("{}={}", name, value);
        } else {
          DDP_CHECK(value.has_value(), "an option that was given has a value");
          return fmt::format("{}={}", name, *value);
        }
      },
      row.field);
}

}  // namespace

std::vector<std::string> agent_words(const Options& options) {
  DDP_CHECK(!only_shows_text(options), "a text is shown here, and by no agent");
  // From the values and not from the words of the shell: so a PET_ variable travels as an option,
  // and a name that was shortened is whole.
  std::vector<std::string> words;
  for (const OptionRow& row : option_rows()) {
    if (row.group == OptionGroup::hosts || has(kOwn, row.name) || !has(options.given, row.name)) {
      continue;
    }
    if (auto word = word_of(options, row)) {
      words.push_back(*std::move(word));
    }
  }
  return words;
}

}  // namespace ddprun
