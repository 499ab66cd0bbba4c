#include "rendezvous/membership/environment_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/rendezvous_status.h"

namespace ddprun {
namespace {

/// Nodes that are remembered, so that one that comes and goes is told of once.
constexpr std::size_t kRememberedMax = 4096;
/// Bytes of names in a sentence.
constexpr std::size_t kNamesBytesMax = 120;

/// Let in by a coordinator before. The node of the one that took over is told by nothing else.
bool was_member(const NodeDescription& node) {
  return node.past.has_value() || node.hosts_coordinator;
}

}  // namespace

/// Before the first world a difference ends the job for all. Later the job is right, and a newcomer
/// that differs is wrong. Whoever was let in by another coordinator stays.
bool EnvironmentCheck::admits(NodeId id, const NodeDescription& node) {
  if (!required_ || !settled_ || !first_ || node.witness || !node.environment.told() ||
      was_member(node) || node.environment == *first_) {
    return true;
  }
  add(id, node);
  kept_out_.insert(id);
  dirty_ = true;
  return false;
}

void EnvironmentCheck::add(NodeId id, const NodeDescription& node) {
  const bool is_new =
      nodes_.emplace(id, Node{node.host_name, node.agent_pid, node.environment}).second;
  DDP_CHECK(is_new, "a node joins once");
  ++hosts_[node.host_name];
}

/// `told_` remembers a host rather than a node: a supervisor that restarts an agent again and again
/// must not make people read the same table each time.
void EnvironmentCheck::joined(NodeId id, const NodeDescription& node) {
  DDP_CHECK(!kept_out_.contains(id), "a node that is kept out does not join");
  if (node.witness || !node.environment.told()) {
    return;
  }
  add(id, node);
  here_[node.environment].insert(id);
  if (!settled_) {
    dirty_ = comparing_;
    return;
  }
  if (was_member(node)) {
    first_ = first_.value_or(node.environment);
    told_.insert({node.host_name, node.environment});
  } else if (!told_.contains({node.host_name, node.environment})) {
    untold_.insert(id);
    dirty_ = true;
  }
}

void EnvironmentCheck::left(NodeId id) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) {
    return;
  }
  const auto host = hosts_.find(found->second.host_name);
  DDP_CHECK(host != hosts_.end() && host->second > 0, "the host of each node is counted");
  if (--host->second == 0) {
    hosts_.erase(host);
  }
  if (const auto same = here_.find(found->second.digest); same != here_.end()) {
    same->second.erase(id);
    if (same->second.empty()) {
      here_.erase(same);
    }
  }
  // Its answer will not come. Another node with its digest is asked instead, if there is one.
  std::erase_if(asked_, [id](const auto& one) { return one.second == id; });
  untold_.erase(id);
  kept_out_.erase(id);
  nodes_.erase(found);
  dirty_ = comparing_ || !untold_.empty() || !kept_out_.empty();
}

/// The answer is filed under the digest of the hello. A node cannot put its facts in the place of
/// another's, because only the one that was asked is listened to.
void EnvironmentCheck::on_facts(NodeId id, NodeEnvironment environment) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) {
    return;
  }
  const auto asked = asked_.find(found->second.digest);
  if (asked != asked_.end() && asked->second == id) {
    known_[asked->first] = std::move(environment);
    asked_.erase(asked);
    dirty_ = true;
  }
}

/// Where differences are an error, the first world waits for the comparison. Else it starts, and
/// people read of the differences while the workers start.
bool EnvironmentCheck::ready_to_start() {
  if (settled_) {
    return true;
  }
  comparing_ = required_ && here_.size() > 1;
  dirty_ = comparing_ || here_.size() > 1;
  if (comparing_) {
    return false;
  }
  settled_ = true;
  first_ = reference();
  DDP_CHECK(here_.empty() || first_.has_value(), "of those that told a digest one has most nodes");
  for (const auto& [digest, nodes] : here_) {
    if (digest != *first_) {
      untold_.insert(nodes.begin(), nodes.end());
    }
  }
  return true;
}

/// The largest group first; of equal ones that with the node that came first.
EnvironmentCheck::Digests EnvironmentCheck::by_size() const {
  std::vector<std::tuple<std::size_t, NodeId, EnvironmentDigest>> sizes;
  for (const auto& [digest, nodes] : here_) {
    DDP_CHECK(!nodes.empty(), "a digest that no node has is forgotten");
    sizes.emplace_back(nodes.size(), *nodes.begin(), digest);
  }
  std::sort(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) {
    return std::get<0>(a) != std::get<0>(b) ? std::get<0>(a) > std::get<0>(b)
                                            : std::get<1>(a) < std::get<1>(b);
  });
  Digests digests;
  for (const auto& one : sizes) {
    digests.push_back(std::get<2>(one));
  }
  return digests;
}

/// What others are compared with: what most nodes of the first world had. Where differences are no
/// error and nobody can tell that any more, what most have now.
std::optional<EnvironmentDigest> EnvironmentCheck::reference() const {
  if (first_ && (required_ || here_.contains(*first_) || known_.contains(*first_))) {
    return first_;
  }
  const Digests digests = by_size();
  return digests.empty() ? std::nullopt : std::optional(digests.front());
}

/// The digests that are to be compared with the reference.
EnvironmentCheck::Digests EnvironmentCheck::subjects(const EnvironmentDigest& reference) {
  Digests digests;
  if (comparing_) {
    digests = by_size();
  }
  std::erase_if(untold_, [&](NodeId id) { return nodes_.at(id).digest == reference; });
  for (const auto* nodes : {&untold_, &kept_out_}) {
    for (const NodeId id : *nodes) {
      digests.push_back(nodes_.at(id).digest);
    }
  }
  // Bounded, because each digest costs a question, an answer and columns of the table.
  Digests distinct;
  std::set<EnvironmentDigest> seen{reference};
  for (const EnvironmentDigest& digest : digests) {
    if (distinct.size() < kComparedMax && seen.insert(digest).second) {
      distinct.push_back(digest);
    }
  }
  DDP_CHECK(distinct.size() <= kComparedMax, "a comparison is bounded");
  return distinct;
}

/// True once all is known that anybody here can tell.
bool EnvironmentCheck::ask_about(const Digests& digests, Step& step) {
  bool all = true;
  for (const EnvironmentDigest& digest : digests) {
    if (known_.contains(digest)) {
      continue;
    }
    if (!asked_.contains(digest)) {
      const auto in_job = here_.find(digest);
      const auto out = std::find_if(kept_out_.begin(), kept_out_.end(),
                                    [&](NodeId id) { return nodes_.at(id).digest == digest; });
      if (in_job == here_.end() && out == kept_out_.end()) {
        continue;  // nobody with it is here any more
      }
      const NodeId representative = in_job != here_.end() ? *in_job->second.begin() : *out;
      asked_[digest] = representative;
      step.ask.push_back(representative);
    }
    all = false;
  }
  return all;
}

/// The comparison takes two passes: the first one asks, and the answers make it dirty again.
EnvironmentCheck::Step EnvironmentCheck::take_actions() {
  Step step;
  if (!std::exchange(dirty_, false)) {
    return step;
  }
  const auto compared_with = reference();
  if (!compared_with) {
    return step;
  }
  const Digests others = subjects(*compared_with);
  if (others.empty()) {
    forget_unused();
    return step;
  }
  Digests needed{*compared_with};
  needed.insert(needed.end(), others.begin(), others.end());
  if (!ask_about(needed, step)) {
    return step;
  }
  if (comparing_ || !untold_.empty()) {
    tell(*compared_with, others, step);
  }
  // The sentence names the largest group that differs; the table before it has all.
  if (comparing_) {
    const NodesAlike odd = alike(others.front());
    step.ending = "node" + std::string(odd.names.size() > 1 ? "s " : " ") +
                  fold_names(odd.names, kNamesBytesMax) +
                  (odd.names.size() > 1 ? " differ from " : " differs from ") +
                  fold_names(alike(*compared_with).names, kNamesBytesMax) + " in " +
                  clause(others.front(), *compared_with) +
                  ", and --require-same-env makes that an error";
    comparing_ = false;
  }
  refuse_all(*compared_with, step);
  forget_unused();
  return step;
}

/// Several groups may share one table. Where the facts of the reference are lost there is nothing
/// to compare with, so no table; those nodes still count as told.
void EnvironmentCheck::tell(const EnvironmentDigest& reference, const Digests& others, Step& step) {
  std::vector<NodesAlike> groups{alike(reference)};
  std::size_t compared = 0;
  for (const EnvironmentDigest& digest : others) {
    NodesAlike group = alike(digest);
    if (!group.names.empty() && known_.contains(digest)) {
      compared += group.names.size();
      groups.push_back(std::move(group));
    }
  }
  DDP_CHECK(groups[0].names.size() <= nodes_.size(), "those alike are some of all nodes");
  const std::size_t differing =
      comparing_ ? nodes_.size() - groups[0].names.size() : untold_.size();
  const auto rows =
      environment_table(known_.contains(reference) ? groups : std::vector<NodesAlike>());
  if (!rows.empty()) {
    step.table = "the nodes of this job do not all have the same environment:";
    for (const std::string& row : rows) {
      step.table += "\n" + row;
    }
    if (differing > compared) {
      step.table +=
          fmt::format("\n  and {} nodes more, each unlike any of these", differing - compared);
    }
  }
  for (const NodeId id : std::exchange(untold_, {})) {
    if (told_.size() < kRememberedMax) {
      told_.insert({nodes_.at(id).host_name, nodes_.at(id).digest});
    }
  }
}

/// They are forgotten here, for their connections end with the refusal.
void EnvironmentCheck::refuse_all(const EnvironmentDigest& reference, Step& step) {
  for (const NodeId id : std::exchange(kept_out_, {})) {
    step.refused.push_back(
        {id,
         {"this node differs from the nodes of the job in " +
              clause(nodes_.at(id).digest, reference) + ", and --require-same-env was given",
          "give it the environment of the others, or name what may differ by --same-env-ignore on "
          "all nodes"}});
    left(id);
  }
}

std::string EnvironmentCheck::clause(const EnvironmentDigest& one,
                                     const EnvironmentDigest& other) const {
  const auto a = known_.find(one);
  const auto b = known_.find(other);
  const std::string named = a == known_.end() || b == known_.end()
                                ? std::string()
                                : difference_clause(a->second, b->second);
  return named.empty() ? "what none of the nodes that had it can name any more" : named;
}

NodesAlike EnvironmentCheck::alike(const EnvironmentDigest& digest) const {
  NodesAlike group;
  if (const auto found = here_.find(digest); found != here_.end()) {
    for (const NodeId id : found->second) {
      group.names.push_back(name_of(id));
    }
  }
  if (const auto found = known_.find(digest); found != known_.end()) {
    group.environment = found->second;
  }
  return group;
}

/// Agents of one machine are told apart by their process.
std::string EnvironmentCheck::name_of(NodeId id) const {
  const Node& node = nodes_.at(id);
  DDP_CHECK(hosts_.contains(node.host_name), "the host of each node is counted");
  return hosts_.at(node.host_name) == 1
             ? node.host_name
             : fmt::format("{} (agent {})", node.host_name, node.agent_pid);
}

/// Facts are kept while somebody may be compared with them.
void EnvironmentCheck::forget_unused() {
  std::erase_if(known_, [this](const auto& one) {
    return !here_.contains(one.first) && one.first != first_.value_or(EnvironmentDigest{});
  });
}

}  // namespace ddprun
