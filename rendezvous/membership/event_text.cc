#include "rendezvous/membership/event_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "rendezvous/base/check.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/membership/incident.h"

namespace ddprun {
namespace {

/// "term.count"
std::string configuration_text(ConfigurationNumber configuration) {
  return fmt::format("{}.{}", number(term_of(configuration)), count_of(configuration));
}

/// Collects "verb key=value key=value".
class Line {
 public:
  explicit Line(std::string_view verb) : text_(verb) {}
  Line& add(std::string_view key, std::string_view value) {
    text_ += ' ';
    text_ += key;
    text_ += '=';
    const bool plain = !value.empty() && std::none_of(value.begin(), value.end(), [](char c) {
      return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '\\' || c == 0x7f;
    });
    plain ? void(text_ += value) : quote(value);
    return *this;
  }
  template <class Integer>
  Line& add_number(std::string_view key, Integer value) {
    return add(key, std::to_string(value));
  }
  Line& node(NodeId id) { return add_number("node", number(id)); }
  Line& attempt(AttemptNumber a) { return add_number("attempt", number(a)); }
  Line& flag(std::string_view word) {
    text_ += ' ';
    text_ += word;
    return *this;
  }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  /// Host names and reasons come from other machines. Escaped, they can neither begin a line of
  /// their own nor move the cursor of a terminal.
  void quote(std::string_view value) {
    text_ += '"';
    for (const char c : value) {
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(c));
        text_ += escaped;
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }
  std::string text_;
};

/// What the order of blame depends on (incident.h), and no evidence: that may be many kilobytes.
void add_record(Line& line, const FailureRecord& record) {
  const bool exited = record.exit.kind == ExitStatus::Kind::exited;
  line.add_number("failed-rank", record.rank)
      .add(exited ? "exit" : "signal",
           exited ? std::to_string(record.exit.value) : signal_name(record.exit.value))
      .add("age", to_text(record.age));
  if (record.after_stop) {
    line.flag("after-stop");
  }
  if (record.peer_lost) {
    line.flag("peer-lost");
  }
}

void add_snapshot(Line& line, const std::string& key, std::optional<SnapshotNumber> at) {
  if (at) {
    line.add_number(key + (at->unit == SnapshotUnit::step ? "-step" : "-epoch"), at->number);
  }
}

void add_progress(Line& line, const TrainingProgress& progress) {
  add_snapshot(line, "resumed", progress.resumed_from);
  if (progress.last_epoch) {
    line.add_number("last-epoch", *progress.last_epoch);
  }
  if (progress.first_step_after) {
    line.add("first-step-after", to_text(*progress.first_step_after));
  }
  add_snapshot(line, "saved", progress.saved);
}

// --- Events: what the coordinator received. Only what its decisions depend on is named. -------

/// A promise explains a later term of the coordinator, so it is shown where there is one.
std::string text_of(const NodeJoined& e) {
  Line line("joined");
  line.node(e.node)
      .add("host", e.description.host_name)
      .add_number("workers", e.description.local_world_size)
      .add("role", e.description.role);
  if (e.description.node_rank) {
    line.add_number("rank", *e.description.node_rank);
  }
  if (e.description.order_hint) {
    line.add_number("order", *e.description.order_hint);
  }
  if (number(e.description.promise.term) > 0) {
    line.add_number("promise", number(e.description.promise.term))
        .add("seen", configuration_text(e.description.promise.configuration));
  }
  if (!e.address.empty()) {
    line.add("address", e.address);
  }
  if (e.description.hosts_coordinator) {
    line.flag("hosts-coordinator");
  }
  return std::move(line).text();
}

std::string text_of(const StrangerTurnedAway& e) {
  return std::move(Line("turned-away").add("address", e.address).add("why", e.why)).text();
}

std::string text_of(const NodeGreeted& e) {
  return std::move(Line("greeted").node(e.node).add("gone", e.gone ? "yes" : "no")).text();
}

std::string text_of(const CallerCame& e) {
  return std::move(Line("called").add("address", e.address)).text();
}

std::string text_of(const NodeHeard& e) {
  return std::move(Line("heard").node(e.node)).text();
}

/// `died` and the lease decide when the next world may begin (old_world_fence.h).
std::string text_of(const NodeLost& e) {
  Line line("lost");
  line.node(e.node).add("why", e.why).add("silent", to_text(e.silent_for));
  if (e.died) {
    line.flag("died");
  }
  if (e.lease_left > e.lease_left.zero()) {
    line.add("lease-left", to_text(e.lease_left));
  }
  return std::move(line).text();
}

std::string text_of(const WorkersStarted& e) {
  return std::move(Line("started").node(e.node).attempt(e.attempt)).text();
}

std::string text_of(const WorkerFailed& e) {
  Line line("failed");
  line.node(e.node).attempt(e.attempt);
  add_record(line, e.record);
  return std::move(line).text();
}

std::string text_of(const WorkersFinished& e) {
  Line line("finished");
  line.node(e.node).attempt(e.attempt);
  add_progress(line, e.progress);
  return std::move(line).text();
}

std::string text_of(const WorkersStopped& e) {
  Line line("stopped");
  line.node(e.node).attempt(e.attempt);
  for (const FailureRecord& record : e.records) {
    add_record(line, record);
  }
  if (e.records_dropped > 0) {
    line.add_number("dropped", e.records_dropped);
  }
  add_progress(line, e.progress);
  return std::move(line).text();
}

std::string text_of(const WorkersProgress& e) {
  Line line("progress");
  line.node(e.node).attempt(e.attempt);
  add_progress(line, e.progress);
  return std::move(line).text();
}

/// Enough to repeat the diagnosis by hand, in most cases: who waits in what, and who is behind.
std::string text_of(const WorkersHung& e) {
  Line line("hung");
  line.node(e.node).attempt(e.attempt).add("why", e.why);
  for (const WorkerPosition& one : e.positions) {
    line.add_number("rank", one.rank);
    if (!one.operation.empty()) {
      line.add("waits-in", fmt::format("{}#{}", one.operation, one.sequence));
    }
    line.add_number("steps", one.steps);
  }
  return std::move(line).text();
}

std::string text_of(const StopRequested& e) {
  constexpr std::string_view kWishes[] = {"end", "preempt", "leave"};
  Line line("stop-requested");
  DDP_CHECK(static_cast<std::size_t>(e.wish) < std::size(kWishes), "each wish has a word");
  line.node(e.node).add("signal", e.signal == 0 ? "none" : signal_name(e.signal));
  if (e.wish != StopWish::end) {
    line.add("wish", kWishes[static_cast<std::size_t>(e.wish)]);
  }
  if (!e.notice.empty()) {
    line.add("notice", e.notice);
  }
  return std::move(line).text();
}

std::string text_of(const NodeGaveUp& e) {
  return std::move(Line("gave-up").node(e.node).add("why", e.why)).text();
}

std::string text_of(const StoreFailed& e) {
  return std::move(Line("store-failed").attempt(e.attempt).add("why", e.why)).text();
}

std::string text_of(const StateAcknowledged& e) {
  return std::move(Line("acknowledged")
                       .node(e.node)
                       .add("configuration", configuration_text(e.configuration)))
      .text();
}

std::string text_of(const TimePassed&) {
  return "time-passed";
}

std::string text_of(const EnvironmentTold& e) {
  return std::move(Line("environment").node(e.node).add_number("facts", e.environment.size()))
      .text();
}

// --- Commands: what the coordinator decided. ---------------------------------------------------
std::string text_of(const Welcome& c) {
  return std::move(Line("welcome").node(c.node)).text();
}

std::string text_of(const Reject& c) {
  return std::move(Line("reject").node(c.node).add("why", c.why)).text();
}

/// The configuration is what acknowledgements name, so both can be found by it.
std::string text_of(const Replicate& c) {
  return std::move(Line("replicate")
                       .add_number("nodes", c.voters.size())
                       .add("configuration", configuration_text(c.replicated.configuration.number))
                       .add_number("voters", c.replicated.configuration.voters.size())
                       .add("ends", c.replicated.ends ? "yes" : "no"))
      .text();
}

std::string text_of(const TellStory& c) {
  return std::move(Line("tell-story").add_number("voters", c.voters.size()).attempt(c.attempt))
      .text();
}

std::string text_of(const WatchNode& c) {
  return std::move(Line("watch").node(c.node)).text();
}

std::string text_of(const Disconnect& c) {
  return std::move(Line("disconnect").node(c.node)).text();
}

std::string text_of(const OpenStore& c) {
  return std::move(Line("open-store").attempt(c.attempt)).text();
}

/// Ranks with their sizes: a mistake in either shows in one line.
std::string text_of(const AssignWorld& c) {
  const World& w = c.world;
  DDP_CHECK(w.group_rank < w.group_world_size, "a rank lies inside its world");
  const auto sum = [](int base, int size) { return fmt::format("{}/{}", base, size); };
  return std::move(Line("assign")
                       .node(c.node)
                       .attempt(w.attempt)
                       .add("group", sum(w.group_rank, w.group_world_size))
                       .add("base-rank", sum(w.base_rank, w.world_size))
                       .add("role-rank", sum(w.role_base_rank, w.role_world_size))
                       .add_number("restarts", w.restarts_used))
      .text();
}

std::string text_of(const TellWorld& c) {
  return std::move(Line("tell-world")
                       .add_number("nodes", c.nodes.size())
                       .attempt(c.attempt)
                       .add("configuration", configuration_text(c.configuration)))
      .text();
}

std::string text_of(const StopWorkers& c) {
  constexpr std::string_view kHow[] = {"now", "save", "preempt", "hang"};
  DDP_CHECK(static_cast<std::size_t>(c.how) < std::size(kHow), "each way to stop has a word");
  Line line("stop");
  line.node(c.node).attempt(c.attempt).add("reason", c.reason);
  if (c.how != StopHow::now) {
    line.add("how", kHow[static_cast<std::size_t>(c.how)]);
  }
  return std::move(line).text();
}

/// Only the sizes of the table, because it comes again and again while a job waits.
std::string text_of(const TellWaiting& c) {
  Line line("waiting");
  DDP_CHECK(c.table != nullptr, "a table is never null");
  line.add_number("nodes", c.nodes.size())
      .add_number("here", c.table->nodes_here)
      .add_number("refused", c.table->refused.size())
      .add_number("lost", c.table->lost.size());
  if (!c.table->note.empty()) {
    line.add("note", c.table->note);
  }
  return std::move(line).text();
}

std::string text_of(const AskEnvironment& c) {
  return std::move(Line("ask-environment").node(c.node)).text();
}

std::string text_of(const TellEnvironments& c) {
  return std::move(Line("tell-environments").add_number("bytes", c.text.size())).text();
}

std::string text_of(const TellIncident& c) {
  return std::move(Line("tell-incident").add_number("nodes", c.nodes.size()).add("text", c.text))
      .text();
}

/// Without the history, which is as long as the job.
std::string text_of(const FinishJob& c) {
  return std::move(Line("finish")
                       .add("verdict", to_text(c.summary->verdict))
                       .add("reason", c.summary->reason)
                       .add_number("attempts", c.summary->attempts)
                       .add_number("restarts", c.summary->restarts_used))
      .text();
}

std::string text_of(const Release& c) {
  return std::move(Line("release").node(c.node)).text();
}

}  // namespace

/// The sign is written by hand: the division of a negative number would put it at both parts.
std::string to_text(Instant at) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(at).count();
  char text[32];
  std::snprintf(text, sizeof text, "%s%lld.%06lld", us < 0 ? "-" : "",
                static_cast<long long>(us < 0 ? -us : us) / 1'000'000,
                static_cast<long long>(us < 0 ? -us : us) % 1'000'000);
  return text;
}

std::string to_text(const Event& event) {
  return std::visit([](const auto& e) { return text_of(e); }, event);
}

std::string to_text(const Command& command) {
  return std::visit([](const auto& c) { return text_of(c); }, command);
}

const char* to_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::succeeded:
      return "succeeded";
    case Verdict::failed:
      return "failed";
    case Verdict::stopped:
      return "stopped";
    case Verdict::impossible:
      return "impossible";
    case Verdict::preempted:
      return "preempted";
    case Verdict::left:
      return "left";
    case Verdict::disagreed:
      return "disagreed";
  }
  return "?";
}

}  // namespace ddprun
