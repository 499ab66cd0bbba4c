#include "rendezvous/protocol/message_codec.h"

#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "rendezvous/membership/incident.h"
#include "rendezvous/membership/job_history.h"
#include "rendezvous/protocol/frame.h"

using namespace ddprun;
using namespace ddprun::message;
using namespace std::chrono_literals;

namespace {

FailureRecord full_record() {
  FailureRecord r;
  r.node = "n2";
  r.group_rank = 1;
  r.rank = 7;
  r.local_rank = 3;
  r.pid = 4711;
  r.exit = {ExitStatus::Kind::signalled, 11};
  r.time = std::chrono::sys_time<std::chrono::microseconds>(1'700'000'000'123'456us);
  r.age = 12ms;
  r.after_stop = true;
  r.peer_lost = true;
  r.message = "Signal 11";
  r.error_file_path = "/tmp/error.json";
  r.error_file_json = "{}";
  r.stderr_tail = "last words";
  r.note = "it stood still";
  r.blame = Blame::victim;
  r.hung = true;
  r.stack = "newest frame";
  r.stacks_path = "/tmp/stacks.txt";
  return r;
}

TrainingProgress full_progress() {
  return {SnapshotNumber::step(20), 50,   0.125, 95ms, true, 17,
          SnapshotNumber::step(40), true, false, 80ms, 11};
}

Accounts full_accounts() {
  Accounts accounts;
  accounts.wall = 21ms;
  accounts.by_start = {1ms, 2ms, 3ms, {4ms, 5ms, 6ms, 0ms, 0ms}};
  accounts.by_step = {6ms, 5ms, 4ms, {3ms, 2ms, 1ms, 0ms, 0ms}};
  accounts.steps_told = true;
  accounts.steps = 100;
  accounts.replayed_steps = 7;
  accounts.ran_by_start = accounts.ran_by_step = true;
  accounts.down_since = IncidentKind::coordinator_lost;
  accounts.saved = {SnapshotNumber::step(12), 90, 4ms};
  return accounts;
}

JobSummary full_summary() {
  Incident incident;
  incident.attempt = AttemptNumber{3};
  incident.reason = "rank 7 on n2 was killed by SIGSEGV";
  incident.records = {full_record(), full_record()};
  incident.records_dropped = 5;
  incident.spent_restart = true;
  incident.at = 90s;
  incident.downtime = 15ms;
  incident.resumed_from = SnapshotNumber::epoch(20);
  incident.kind = IncidentKind::node_lost;
  incident.parts = {1ms, 2ms, 3ms, 4ms, 5ms, true};
  incident.lost = {7, 8ms};
  JobSummary s;
  s.verdict = Verdict::stopped;
  s.reason = "SIGTERM";
  s.stop_signal = 15;
  s.attempts = 4;
  s.restarts_used = 2;
  s.max_restarts = 3;
  s.incidents = {incident, Incident{}};
  s.incidents_dropped = 6;
  s.progress = full_progress();
  s.accounts = full_accounts();
  s.restart_state = {{9s, 1s}, 2, 1, SnapshotNumber::step(40), 17};
  return s;
}

ReplicatedState full_state() {
  ReplicatedState state{
      Term{2}, Term{1}, VoterId{5}, AttemptNumber{6}, {}, {}, ConfigurationNumber{6}};
  state.configuration = {ConfigurationNumber{8}, {VoterId{5}, VoterId{6}}};
  state.before.push_back({ConfigurationNumber{7}, {VoterId{4}}});
  state.instance = JobInstance{99};
  return state;
}

NodeDescription full_node() {
  return {"n1",
          42,
          8,
          "trainer",
          5,
          6,
          true,
          true,
          "job",
          2,
          4,
          3,
          "train linear 50 10",
          true,
          VoterId{77},
          {"10.0.0.1", "fd00::1"},
          4711,
          Promise{Term{3}, VoterId{5}, ConfigurationNumber{7}},
          Past{Term{2},
               AttemptNumber{5},
               ConfigurationNumber{3},
               1,
               4,
               true,
               {1, 2, 3},
               7s,
               true,
               3s,
               JobInstance{99}},
          {0xfedcba9876543210, 0x8000000000000001},
          true,
          "no disk",
          StateCopy{full_state(),
                    full_summary(),
                    6s,
                    true,
                    {4, 5, 6},
                    true,
                    {{VoterId{6}, "n2", {"10.0.0.2"}, 4712}}},
          8s};
}

RendezvousStatus full_table() {
  return {RendezvousStatus::For::last_call,
          2,
          4,
          3,
          9,
          5s,
          7s,
          {{"n1", "10.0.0.1", 8, 0, true, 4s}},
          "n2-n9",
          {{"n3", "10.0.0.3", "why", 2, 1s}},
          3,
          {{"", "", "lost", 1, 2s}},
          4,
          {1, 2},
          "note"};
}

std::vector<Message> one_of_each() {
  const WorkerPosition position{3,  true, "training", 16,    "all_reduce", 1,
                                17, 4096, {16, 17},   500ms, "stopped"};
  World world{AttemptNumber{9}, 1, 2, 4, 8, 2, 4, 1, "10.0.0.1", 29'500};
  return {Hello{full_node()},
          Started{AttemptNumber{1}},
          Failed{AttemptNumber{1}, full_record()},
          Finished{AttemptNumber{1}, full_progress()},
          Stopped{AttemptNumber{1}, {full_record(), FailureRecord{}}, 3, {}},
          StopRequest{15, StopWish::preempt, "aws: terminate of the spot instance"},
          GiveUp{"no program"},
          Accepted{Term{3}, VoterId{5}, 12345, JobInstance{99}, {7, 8, 9}, true},
          Rejected{"why", "todo"},
          Assigned{world, ConfigurationNumber{4}, Term{3}, 1, JobInstance{5}, 90s},
          Stop{AttemptNumber{2}, "reason", StopHow::preempt, 10},
          Finish{full_summary()},
          Waiting{full_table()},
          Beat{3s, 99, 1500ms},
          Echo{99},
          VoterState{1,
                     full_state(),
                     {{VoterId{5}, "n1", {"10.0.0.1"}, 4711}},
                     4,
                     full_summary(),
                     2,
                     4,
                     3,
                     true,
                     7s},
          Story{AttemptNumber{6}, full_summary()},
          TellWorld{AttemptNumber{6}, ConfigurationNumber{8}, Term{3}, JobInstance{5}},
          MoreNodes{{{VoterId{6}, "n2", {"10.0.0.2", "fd00::2"}, 4712}}},
          Farewell{"why"},
          StateKept{ConfigurationNumber{8}, 4},
          AskVote{"job",
                  VoterId{3},
                  {Term{4}, VoterId{9}, {ConfigurationNumber{7}, ConfigurationNumber{8}, Term{1}}}},
          VoteAnswer{{VoteVerdict::ahead, Term{4}, ConfigurationNumber{8}, ConfigurationNumber{7},
                      AttemptNumber{3}, Term{2}, 5ms, true}},
          Follow{"job",
                 Term{4},
                 {"10.0.0.2"},
                 4712,
                 JobOptions{2, 4, 3, true},
                 JobInstance{99},
                 VoterId{6}},
          Moved{Term{4}, {"10.0.0.2"}, 4712, VoterId{6}, JobInstance{99}},
          Leaving{},
          Progress{AttemptNumber{2}, full_progress()},
          AskEnvironment{},
          TellEnvironment{{{"gpu", "NVIDIA H200"}, {"NCCL_DEBUG", ""}}},
          Hung{AttemptNumber{1}, {position, WorkerPosition{}}, "why"},
          TellIncident{"rank 1 on n2 exited with code 1"},
          DrainNode{"n2"},
          DrainAnswer{"no node here is n2"},
          AskToLeave{}};
}

struct Parts {
  std::uint8_t type;
  std::string payload;
};

Parts parts(const std::string& bytes) {
  return {static_cast<std::uint8_t>(bytes.at(4)), bytes.substr(kFrameHeaderBytes)};
}

}  // namespace

TEST_CASE("Every message comes back as it was sent") {
  // Compared by bytes: encoding is a function of the values, and every value is set above.
  for (const Message& sent : one_of_each()) {
    const std::string bytes = encode(sent);
    const auto [type, payload] = parts(bytes);
    const auto received = decode(type, payload);
    REQUIRE(received.has_value());
    CHECK(received->index() == sent.index());
    CHECK(encode(*received) == bytes);
  }
}

TEST_CASE("Values survive the wire") {
  const auto each = one_of_each();
  const auto hello = parts(encode(each[0]));
  CHECK(std::get<Hello>(*decode(hello.type, hello.payload)).node == std::get<Hello>(each[0]).node);
  const auto world = parts(encode(each[9]));
  CHECK(std::get<Assigned>(*decode(world.type, world.payload)).world ==
        std::get<Assigned>(each[9]).world);
  const auto finish = parts(encode(each[11]));
  const JobSummary summary = std::get<Finish>(*decode(finish.type, finish.payload)).summary;
  CHECK(summary.progress == full_progress());
  CHECK(summary.incidents_dropped == 6);
  CHECK(summary.incidents.at(0).downtime == 15ms);
  CHECK(summary.incidents.at(0).records.at(0).exit == full_record().exit);
  CHECK(summary.incidents.at(0).records.at(0).time == full_record().time);
  CHECK(summary.incidents.at(0).records.at(1).stderr_tail == "last words");
  CHECK(summary.incidents.at(0).records.at(1).note == "it stood still");
}

TEST_CASE("A message cut at any byte, or with one too many, is malformed") {
  for (const Message& sent : one_of_each()) {
    const auto [type, payload] = parts(encode(sent));
    for (std::size_t n = 0; n < payload.size(); ++n) {
      CHECK(decode(type, payload.substr(0, n)).has_error());
    }
    CHECK(decode(type, payload + '\0').has_error());
  }
}

TEST_CASE("Any bytes decode to a message or an error") {
  std::mt19937 random(7);
  const auto each = one_of_each();
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    auto [type, payload] = parts(encode(each[random() % each.size()]));
    if (i % 2 == 0) {
      payload.assign(random() % 64, '\0');
      for (char& c : payload) {
        c = static_cast<char>(random());
      }
      type = static_cast<std::uint8_t>(random());
    } else if (!payload.empty()) {
      payload[random() % payload.size()] ^= static_cast<char>(1 + random() % 255);
    }
    refused += decode(type, payload).has_error() ? 1 : 0;
  }
  CHECK(refused > 5'000);
}

TEST_CASE("A term is refused beyond its limit, in every message that has one") {
  // At the largest number of its bits the next term would be 0.
  constexpr Term kLargest{std::numeric_limits<std::uint32_t>::max()};
  const auto accepts = [](const Message& sent) {
    const auto [type, payload] = parts(encode(sent));
    return decode(type, payload).has_value();
  };
  for (const Term term : {Term{number(kTermMax) - 1}, kTermMax, Term{number(kTermMax) + 1},
                          Term{1U << 31U}, kLargest}) {
    INFO(number(term));
    const bool good = term <= kTermMax;
    Hello promised{full_node()};
    promised.node.promise.term = term;
    CHECK(accepts(promised) == good);
    Hello remembers{full_node()};
    remembers.node.past->term = term;
    CHECK(accepts(remembers) == good);
    Hello brings{full_node()};
    brings.node.copy->replicated.term = term;
    CHECK(accepts(brings) == good);
    VoterState state;
    state.heartbeat_timeout = 1s;
    state.replicated.since = term;
    CHECK(accepts(state) == good);
    CHECK(accepts(Accepted{term, VoterId{5}, 1}) == good);
    Assigned assigned;
    assigned.world.group_world_size = assigned.world.world_size = 1;
    assigned.world.role_world_size = 1;
    assigned.term = term;
    CHECK(accepts(assigned) == good);
    CHECK(accepts(AskVote{"job", VoterId{3}, {term, VoterId{9}, {}}}) == good);
    CHECK(accepts(AskVote{"job", VoterId{3}, {Term{1}, VoterId{9}, {{}, {}, term}}}) == good);
    VoteAnswer newest;
    newest.vote.newest_term = term;
    CHECK(accepts(newest) == good);
    VoteAnswer attempt;
    attempt.vote.attempt_term = term;
    CHECK(accepts(attempt) == good);
    Follow follow;
    follow.term = term;
    CHECK(accepts(follow) == good);
    CHECK(accepts(Moved{term, {}, 1}) == good);
  }
}

TEST_CASE("An attempt number is refused beyond its limit, in every message that has one") {
  // At the largest number of its bits the next attempt would be 0.
  constexpr AttemptNumber kLargest{std::numeric_limits<std::uint32_t>::max()};
  const auto accepts = [](const Message& sent) {
    const auto [type, payload] = parts(encode(sent));
    return decode(type, payload).has_value();
  };
  for (const AttemptNumber attempt : {AttemptNumber{number(kAttemptMax) - 1}, kAttemptMax,
                                      AttemptNumber{number(kAttemptMax) + 1}, kLargest}) {
    INFO(number(attempt));
    const bool good = attempt <= kAttemptMax;
    Hello remembers{full_node()};
    remembers.node.past->attempt = attempt;
    CHECK(accepts(remembers) == good);
    Hello brings{full_node()};
    brings.node.copy->replicated.attempt = attempt;
    CHECK(accepts(brings) == good);
    VoterState state;
    state.heartbeat_timeout = 1s;
    state.replicated.attempt = attempt;
    CHECK(accepts(state) == good);
    Assigned assigned;
    assigned.world.group_world_size = assigned.world.world_size = 1;
    assigned.world.role_world_size = 1;
    assigned.world.attempt = attempt;
    CHECK(accepts(assigned) == good);
    CHECK(accepts(AskVote{"job", VoterId{3}, {Term{1}, VoterId{9}, {}, attempt}}) == good);
    VoteAnswer vote;
    vote.vote.attempt = attempt;
    CHECK(accepts(vote) == good);
    CHECK(accepts(Started{attempt}) == good);
    CHECK(accepts(Stop{attempt, "why"}) == good);
    CHECK(accepts(Story{attempt, {}}) == good);
  }
}

TEST_CASE("The largest environment of a node fits into a frame") {
  const NodeEnvironment most(
      kFactsMax, {std::string(kFactNameBytesMax, 'N'), std::string(kFactValueBytesMax, 'v')});
  const std::string bytes = encode(TellEnvironment{most});
  CHECK(bytes.size() <= kAgentFrameBytesMax);
  const auto [type, payload] = parts(bytes);
  const auto received = decode(type, payload);
  REQUIRE(received.has_value());
  CHECK(std::get<TellEnvironment>(*received).environment == most);
  // What joins carry instead.
  CHECK(encode(Hello{}).size() < 200);
}

TEST_CASE("Unknown types are refused") {
  CHECK(decode(0, "").has_error());
  CHECK(decode(15, "").has_error());
  CHECK(decode(255, "").has_error());
  CHECK(decode(200, "").error().what == "a message has the unknown type 200");
}

TEST_CASE("Texts are cut at their limit by the sender") {
  for (const std::size_t size : {kSentenceBytesMax - 1, kSentenceBytesMax, kSentenceBytesMax + 1}) {
    const auto [type, payload] = parts(encode(GiveUp{std::string(size, 'x')}));
    const auto received = decode(type, payload);
    REQUIRE(received.has_value());
    CHECK(std::get<GiveUp>(*received).why.size() == std::min(size, kSentenceBytesMax));
  }
}

TEST_CASE("Our own values beyond their limits are brought within them") {
  FailureRecord record;
  record.pid = -1;
  record.age = -5s;
  record.exit.value = 1000;
  const auto [type, payload] = parts(encode(Failed{AttemptNumber{0}, record}));
  const auto received = decode(type, payload);
  REQUIRE(received.has_value());
  const FailureRecord& back = std::get<Failed>(*received).record;
  CHECK(back.pid == 0);
  CHECK(back.age == 0ns);
  CHECK(back.exit.value == 255);
}

TEST_CASE("The largest set of records of a node fits into a frame") {
  std::vector<FailureRecord> records(kIncidentRecordsMax + 10, full_record());
  for (FailureRecord& record : records) {
    record.error_file_json.assign(kErrorFileBytesMax, 'x');
    record.stderr_tail.assign(kStderrTailBytesMax, 'x');
    record.message.assign(kSentenceBytesMax, 'x');
    record.error_file_path.assign(kPathBytesMax, 'x');
  }
  CHECK(bound_records(records) == 10);
  CHECK(records.size() == kIncidentRecordsMax);
  const std::string bytes = encode(Stopped{AttemptNumber{0}, records, 10, {}});
  CHECK(bytes.size() <= kAgentFrameBytesMax);
}

TEST_CASE("Bounding records keeps those first that may be the cause") {
  std::vector<FailureRecord> records(3);
  records[0].after_stop = true;
  records[0].age = 9s;
  records[1].age = 1s;
  records[1].rank = 1;
  records[2].age = 2s;
  records[2].rank = 2;
  CHECK(bound_records(records) == 0);
  CHECK(records[0].rank == 2);
  CHECK(records[1].rank == 1);
  CHECK(records[2].after_stop);
}

TEST_CASE("A hello with a history that is too long loses its oldest incidents") {
  NodeDescription node = full_node();
  Incident incident;
  incident.records.assign(kIncidentRecordsMax, full_record());
  incident.records.front().stderr_tail.assign(kStderrTailBytesMax, 'x');
  node.copy->so_far.incidents.assign(kIncidentsMax, incident);
  node.copy->so_far.incidents.back().attempt = AttemptNumber{7};
  const std::string bytes = encode(Hello{node});
  CHECK(bytes.size() <= kAgentFrameBytesMax);
  CHECK(bytes.size() > kAgentFrameBytesMax / 2);
  const auto [type, payload] = parts(bytes);
  const auto received = decode(type, payload);
  REQUIRE(received.has_value());
  const JobSummary& kept = std::get<Hello>(*received).node.copy->so_far;
  CHECK(kept.incidents.back().attempt == AttemptNumber{7});
  CHECK(kept.restart_state == node.copy->so_far.restart_state);
}

namespace {

/// As many incidents as a job keeps, of kIncidentRecordsMax records with these bytes of evidence.
JobSummary long_story(std::size_t evidence) {
  JobSummary summary;
  Incident incident;
  FailureRecord record;
  record.message = "it failed";
  record.stderr_tail.assign(evidence, 'x');
  incident.records.assign(kIncidentRecordsMax, record);
  for (std::size_t i = 0; i < kIncidentsMax; ++i) {
    incident.attempt = AttemptNumber{static_cast<std::uint32_t>(i)};
    summary.incidents.push_back(incident);
  }
  return summary;
}

std::vector<Incident> incidents_sent(const JobSummary& summary, std::size_t receivers,
                                     std::size_t bytes_max) {
  const std::string bytes = encode_bounded(message::Finish{summary}, receivers);
  CHECK(bytes.size() <= bytes_max);
  CHECK(bytes.size() > bytes_max / 2);
  const auto [type, payload] = parts(bytes);
  auto received = decode(type, payload);
  REQUIRE(received.has_value());
  JobSummary& sent = std::get<Finish>(*received).summary;
  CHECK(sent.incidents_dropped + static_cast<int>(sent.incidents.size()) ==
        summary.incidents_dropped + static_cast<int>(summary.incidents.size()));
  return std::move(sent.incidents);
}

}  // namespace

TEST_CASE("A summary that is too large loses its oldest evidence first") {
  const auto kept = incidents_sent(long_story(kStderrTailBytesMax), 1, kCoordinatorFrameBytesMax);
  REQUIRE(kept.size() == kIncidentsMax);
  CHECK(kept.front().records.size() == kIncidentRecordsMax);
  CHECK(kept.front().records.front().stderr_tail.empty());
  CHECK(kept.back().records.back().stderr_tail.size() == kStderrTailBytesMax);
}

TEST_CASE("The end of a job of thousands of nodes is short, and has the last cause") {
  const auto kept = incidents_sent(long_story(kStderrTailBytesMax), 10'000, kFinishBytesMin);
  REQUIRE(kept.size() > 1);
  CHECK(kept.size() < kIncidentsMax);
  CHECK(kept.back().attempt == AttemptNumber{kIncidentsMax - 1});
  CHECK(kept.back().records.size() == kIncidentRecordsMax);
  CHECK(kept.back().records.front().stderr_tail.size() == kStderrTailBytesMax);
  CHECK(kept.back().records.back().stderr_tail.empty());
}
