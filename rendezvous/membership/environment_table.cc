#include "rendezvous/membership/environment_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"
#include "rendezvous/membership/rendezvous_status.h"

namespace ddprun {
namespace {

/// Facts that a clause names.
constexpr std::size_t kClauseFactsMax = 3;
/// What is shown of a long value before its first difference.
constexpr std::size_t kContextBytes = 8;
constexpr std::string_view kCut = "...";

/// Facts are either variables or the agents' own words for the machine; those are in lower case.
bool is_variable(std::string_view name) {
  return !name.empty() && name.front() >= 'A' && name.front() <= 'Z';
}

/// Null: this node has no such fact. For a variable that means that it is not set.
const std::string* value_of(const NodeEnvironment& environment, const std::string& name) {
  const auto found = std::find_if(environment.begin(), environment.end(),
                                  [&](const EnvironmentFact& fact) { return fact.name == name; });
  return found == environment.end() ? nullptr : &found->value;
}

std::string shown(const std::string& name, const std::string* value) {
  if (value == nullptr) {
    return is_variable(name) ? "<not set>" : "<unknown>";
  }
  return value->empty() ? "<empty>" : printable(*value);
}

/// Leaves of each value what is around its first difference from the others.
void shorten(std::vector<std::string*> values) {
  const bool fits = std::all_of(values.begin(), values.end(), [](const std::string* value) {
    return value->size() <= kTableValueColumnsMax;
  });
  if (fits || values.empty()) {
    return;
  }
  // The length of the common beginning. Paths often differ only in their last component.
  std::size_t same = values.front()->size();
  for (const std::string* value : values) {
    const auto at =
        std::mismatch(value->begin(), value->end(), values.front()->begin(), values.front()->end());
    same = std::min(same, static_cast<std::size_t>(at.first - value->begin()));
  }
  const std::size_t begin = same > kContextBytes + kCut.size() ? same - kContextBytes : 0;
  for (std::string* value : values) {
    std::string part = begin > 0 ? std::string(kCut) : std::string();
    part += value->substr(std::min(begin, value->size()));
    if (part.size() > kTableValueColumnsMax) {
      part = part.substr(0, kTableValueColumnsMax - kCut.size()) + std::string(kCut);
    }
    DDP_CHECK(part.size() <= kTableValueColumnsMax, "a shortened value fits into its column");
    *value = std::move(part);
  }
}

/// The names of all facts: those of the machine in the order of the agents, then the variables by
/// name.
std::vector<std::string> all_names(const std::vector<const NodeEnvironment*>& environments) {
  std::vector<std::string> names;
  std::map<std::string, bool> seen;
  for (const NodeEnvironment* environment : environments) {
    for (const EnvironmentFact& fact : *environment) {
      if (!std::exchange(seen[fact.name], true)) {
        names.push_back(fact.name);
      }
    }
  }
  const auto variables = std::stable_partition(
      names.begin(), names.end(), [](const std::string& name) { return !is_variable(name); });
  std::sort(variables, names.end());
  return names;
}

struct Value {
  std::string text;
  std::vector<std::string> nodes;
};

/// The values of one fact, that of most nodes first; a single one when all agree.
std::vector<Value> values_of(const std::string& name, const std::vector<NodesAlike>& groups) {
  std::vector<Value> values;
  std::map<std::pair<bool, std::string>, std::size_t> places;
  for (const NodesAlike& group : groups) {
    const std::string* value = value_of(group.environment, name);
    const auto [place, is_new] = places.emplace(
        std::pair(value != nullptr, value != nullptr ? *value : std::string()), values.size());
    if (is_new) {
      values.push_back({shown(name, value), {}});
    }
    auto& nodes = values[place->second].nodes;
    nodes.insert(nodes.end(), group.names.begin(), group.names.end());
  }
  std::stable_sort(values.begin(), values.end(),
                   [](const Value& a, const Value& b) { return a.nodes.size() > b.nodes.size(); });
  return values;
}

struct Row {
  std::string what;
  std::string value;
  std::string nodes;
};

/// The name stands in the first row only, as a person would write it.
void add_rows(const std::string& name, std::vector<Value> values, std::vector<Row>& rows) {
  DDP_CHECK(values.size() > 1, "only facts that differ have rows");
  std::vector<std::string*> texts;
  for (Value& value : values) {
    texts.push_back(&value.text);
  }
  shorten(texts);
  std::string what = printable(name);
  const std::size_t told = std::min(values.size(), kTableValuesMax);
  for (std::size_t i = 0; i < told; ++i) {
    rows.push_back({std::exchange(what, {}), std::move(values[i].text),
                    printable(fold_names(std::move(values[i].nodes)))});
  }
  if (told < values.size()) {
    std::vector<std::string> others;
    for (std::size_t i = told; i < values.size(); ++i) {
      others.insert(others.end(), values[i].nodes.begin(), values[i].nodes.end());
    }
    rows.push_back({{},
                    fmt::format("<{} more values>", values.size() - told),
                    printable(fold_names(std::move(others)))});
  }
}

/// Columns are as wide as their widest cell, in bytes: names and values are mostly ASCII.
std::vector<std::string> laid_out(const std::vector<Row>& rows) {
  std::size_t what = 0;
  std::size_t value = 0;
  for (const Row& row : rows) {
    what = std::max(what, row.what.size());
    value = std::max(value, row.value.size());
  }
  std::vector<std::string> lines;
  lines.reserve(rows.size());
  for (const Row& row : rows) {
    lines.push_back("  " + row.what + std::string(what - row.what.size() + 2, ' ') + row.value +
                    std::string(value - row.value.size() + 2, ' ') + row.nodes);
  }
  return lines;
}

}  // namespace

/// Facts are counted past the limit, so that people know how many are not shown.
std::vector<std::string> environment_table(const std::vector<NodesAlike>& groups) {
  std::vector<const NodeEnvironment*> environments;
  for (const NodesAlike& group : groups) {
    environments.push_back(&group.environment);
  }
  std::vector<Row> rows{{"what", "value", "nodes"}};
  std::size_t facts = 0;
  for (const std::string& name : all_names(environments)) {
    auto values = values_of(name, groups);
    if (values.size() > 1 && ++facts <= kTableFactsMax) {
      add_rows(name, std::move(values), rows);
    }
  }
  if (facts == 0) {
    return {};
  }
  DDP_CHECK(rows.size() > 1, "a fact that differs has rows");
  DDP_CHECK(rows.size() <= 1 + kTableFactsMax * (kTableValuesMax + 1), "a table is bounded");
  auto lines = laid_out(rows);
  if (facts > kTableFactsMax) {
    lines.push_back(fmt::format("  and {} more differences", facts - kTableFactsMax));
  }
  return lines;
}

std::string difference_clause(const NodeEnvironment& one, const NodeEnvironment& reference) {
  std::string text;
  std::size_t facts = 0;
  for (const std::string& name : all_names({&reference, &one})) {
    const std::string* here = value_of(one, name);
    const std::string* there = value_of(reference, name);
    const bool equal = here == nullptr ? there == nullptr : there != nullptr && *here == *there;
    if (equal || ++facts > kClauseFactsMax) {
      continue;
    }
    std::string mine = shown(name, here);
    std::string others = shown(name, there);
    shorten({&mine, &others});
    text += (facts > 1 ? ", " : "") + printable(name) + " (" + mine + ", not " + others + ")";
  }
  if (facts > kClauseFactsMax) {
    text += fmt::format(" and {} more", facts - kClauseFactsMax);
  }
  return text;
}

}  // namespace ddprun
