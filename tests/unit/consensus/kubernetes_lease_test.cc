#include "rendezvous/consensus/kubernetes_lease.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "rendezvous/consensus/deflate.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr WallTime kNoon{std::chrono::microseconds(1'793'880'000'000'123)};

JobLease some_lease() {
  JobLease lease;
  lease.holder = "pod-0_77";
  lease.leader_lasts = seconds(15);
  lease.acquired = lease.renewed = kNoon;
  lease.transitions = 3;
  lease.writer = "w-1";
  lease.revision = 12;
  lease.view.leader = LeaderRecord{
      Term{3}, VoterId{(1ULL << 62) + 1}, JobInstance{77}, {"10.0.0.1", "fd00::1"}, 4'000};
  lease.view.leader_revision = 11;
  lease.view.newest_term = Term{3};
  lease.view.term_revision = 11;
  lease.view.state = std::string("\0\xff state", 8);
  lease.view.state_revision = 12;
  lease.leader_lease = "l-1";
  lease.state_lease = "l-2";
  lease.state_lasts = seconds(600);
  return lease;
}

/// As the server has it then.
json object_of(const JobLease& lease, const std::string& job = "job") {
  json object = json::parse(body_of(lease, job).value());
  object["metadata"]["resourceVersion"] = "5";
  return object;
}

std::string refused(const json& object) {
  const auto read = job_lease_of(object, "ddprun-job");
  REQUIRE_FALSE(read.has_value());
  return read.error().sentence();
}

}  // namespace

TEST_CASE("What is written into a Lease is read again") {
  const auto read = job_lease_of(object_of(some_lease()), "ddprun-job");
  REQUIRE(read.has_value());
  const JobLease lease = some_lease();
  CHECK(read->resource_version == "5");
  CHECK(read->view.leader == lease.view.leader);
  CHECK(read->view.leader_revision == 11);
  CHECK(read->view.newest_term == Term{3});
  CHECK(read->view.term_revision == 11);
  CHECK(read->view.state == lease.view.state);
  CHECK(read->view.state_revision == 12);
  CHECK(read->leader_lease == "l-1");
  CHECK(read->state_lease == "l-2");
  CHECK(read->state_lasts == seconds(600));
  CHECK(read->leader_lasts == seconds(15));
  CHECK(read->renewed == kNoon);
  CHECK(read->writer == "w-1");
  CHECK(read->revision == 12);
}

TEST_CASE("A Lease says who leads as those of Kubernetes' own programs do") {
  json object = object_of(some_lease());
  CHECK(object["apiVersion"] == "coordination.k8s.io/v1");
  CHECK(object["metadata"]["name"] == "ddprun-job");
  CHECK(object["spec"] == json{{"holderIdentity", "pod-0_77"},
                               {"leaseDurationSeconds", 15},
                               {"acquireTime", "2026-11-05T12:00:00.000123Z"},
                               {"renewTime", "2026-11-05T12:00:00.000123Z"},
                               {"leaseTransitions", 3}});
  JobLease free = some_lease();
  free.view.leader.reset();
  object = object_of(free);
  CHECK(object["spec"]["holderIdentity"] == "");
  CHECK(object["spec"]["leaseDurationSeconds"] == 1);
  CHECK_FALSE(object["metadata"]["annotations"].contains("ddprun.io/leader"));
}

TEST_CASE("What others keep in a Lease stays, and what is gone does not") {
  json object = object_of(some_lease());
  object["metadata"]["uid"] = "u";
  object["metadata"]["labels"]["team"] = "x";
  object["metadata"]["annotations"]["example.org/note"] = "y";
  object["metadata"]["managedFields"] = json::array({1});
  object["spec"]["strategy"] = "z";
  auto read = job_lease_of(object, "ddprun-job");
  REQUIRE(read.has_value());
  read->view.state_revision = 0;
  const json written = json::parse(body_of(*read, "job").value());
  const json& metadata = written["metadata"];
  CHECK(metadata["uid"] == "u");  // so that a PUT creates none
  CHECK(metadata["resourceVersion"] == "5");
  CHECK(metadata["labels"]["team"] == "x");
  CHECK(metadata["labels"]["app.kubernetes.io/managed-by"] == "ddprun");
  CHECK(metadata["annotations"]["example.org/note"] == "y");
  CHECK_FALSE(metadata["annotations"].contains("ddprun.io/state"));
  CHECK_FALSE(metadata.contains("managedFields"));
  CHECK(written["spec"]["strategy"] == "z");
}

TEST_CASE("An id and a host name of any bytes can be written") {
  JobLease lease = some_lease();
  lease.holder = "h\xff";
  const json object = object_of(lease, "j\xff");
  CHECK(object["metadata"]["annotations"]["ddprun.io/job"] == "j\xef\xbf\xbd");
}

TEST_CASE("An empty Lease may be there already, and one that somebody holds is left alone") {
  json object{{"metadata", {{"name", "ddprun-job"}, {"resourceVersion", "1"}}}};
  const auto empty = job_lease_of(object, "ddprun-job");
  REQUIRE(empty.has_value());
  CHECK(empty->revision == 0);
  object["spec"]["holderIdentity"] = "scheduler-1";
  CHECK(refused(object).find("'scheduler-1' holds the Lease, and is no ddprun") !=
        std::string::npos);
  object["metadata"].erase("resourceVersion");
  CHECK(refused(object).find("no version") != std::string::npos);
}

TEST_CASE("What somebody else wrote into a Lease of a job is refused by its name") {
  const std::pair<const char*, const char*> changes[] = {
      {"leader", "{}"},
      {"leader-revision", "x"},
      {"leader-revision", "9223372036854775807"},
      {"leader-lease", ""},
      {"term", "-1"},
      {"term-revision", "0"},
      {"state", "?"},
      {"state", "eHh4"},
      {"state-revision", "-5"},
      {"state-lease-seconds", "0"},
      {"state-lease-seconds", "2147483648"},
  };
  for (const auto& [name, value] : changes) {
    CAPTURE(name, value);
    json object = object_of(some_lease());
    object["metadata"]["annotations"][std::string("ddprun.io/") + name] = value;
    CHECK(refused(object).find("ddprun-job: the Lease holds no ") == 0);
  }
  json object = object_of(some_lease());
  object["metadata"]["annotations"]["ddprun.io/revision"] = "9223372036854775807";
  CHECK(refused(object).find("is no ddprun") != std::string::npos);
  object["spec"]["holderIdentity"] = "";
  CHECK(refused(object).find("the Lease holds no revision") != std::string::npos);
  object = object_of(some_lease());
  object["spec"]["leaseDurationSeconds"] = -1;
  CHECK(refused(object).find("coordinator") != std::string::npos);
  for (const char* const time : {"", "2026-13-01T00:00:00.000000Z", "2026-11-05 12:00"}) {
    object = object_of(some_lease());
    object["spec"]["renewTime"] = time;
    CHECK(job_lease_of(object, "ddprun-job")->renewed == WallTime{});
  }
}

TEST_CASE("The state of two thousand nodes fits into the annotations of a Lease") {
  message::VoterState state;
  std::vector<message::VoterAddress> nodes;
  std::uint64_t voter = 88'172'645'463'325'252;  // xorshift: numbers that nothing makes shorter
  for (int node = 0; node < 2'000; ++node) {
    voter ^= voter << 13;
    voter ^= voter >> 7;
    voter ^= voter << 17;
    const std::string number = std::to_string(node);
    nodes.push_back({VoterId{voter >> 1},
                     "llama-pretraining-workers-0-" + number + ".llama-pretraining",
                     {"10." + std::to_string(voter % 250) + "." + std::to_string(node / 200) + "." +
                          std::to_string(node % 200),
                      "fd00:10:244:" + number + "::" + std::to_string(voter % 9'999)},
                     static_cast<std::uint16_t>(30'000 + voter % 20'000)});
  }
  std::string frames = encode(message::Message{state});
  for (std::size_t at = 0; at < nodes.size(); at += 1'000) {
    frames += encode(message::MoreNodes{{nodes.begin() + static_cast<std::ptrdiff_t>(at),
                                         nodes.begin() + static_cast<std::ptrdiff_t>(at + 1'000)}});
  }
  JobLease lease = some_lease();
  lease.view.state = frames;
  const auto body = body_of(lease, "job");
  REQUIRE(body.has_value());
  CAPTURE(frames.size(), body->size());
  CHECK(body->size() < kAnnotationBytesMax / 2);
  CHECK(job_lease_of(object_of(lease), "ddprun-job")->view.state == frames);
}

TEST_CASE("A state that is too large for a Lease is an error that says so") {
  JobLease lease = some_lease();
  std::uint64_t random = 88'172'645'463'325'252;
  lease.view.state.clear();
  while (lease.view.state.size() < kAnnotationBytesMax) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    lease.view.state += static_cast<char>(random);
  }
  const auto body = body_of(lease, "job");
  REQUIRE_FALSE(body.has_value());
  CHECK(body.error().sentence().find("Kubernetes keeps 262144 of them") != std::string::npos);
}

TEST_CASE("Who fills a Lease with annotations of his own is blamed for its size") {
  JobLease lease = some_lease();
  lease.others = R"({"metadata":{"annotations":{"example.org/note":")" +
                 std::string(kAnnotationBytesMax, 'a') + R"("}},"spec":{}})";
  const auto body = body_of(lease, "job");
  REQUIRE_FALSE(body.has_value());
  CHECK(body.error().sentence().find("262160 bytes of annotations that are not ddprun's") !=
        std::string::npos);
}

TEST_CASE("What was deflated is inflated again, up to a bound") {
  for (const std::string& text : {std::string(), std::string("a"), std::string(100'000, 'a')}) {
    CHECK(inflated(deflated(text), text.size()) == text);
    CHECK_FALSE(inflated(deflated(text) + "x", text.size()).has_value());
  }
  const std::string packed = deflated(std::string(100'000, 'a') + "b");
  CHECK_FALSE(inflated(packed, 100'000).has_value());
  CHECK(packed.size() < 300);
  for (std::size_t size = 0; size + 1 < packed.size(); ++size) {
    CHECK_FALSE(inflated(packed.substr(0, size), 200'000).has_value());
  }
  // Wherever in its last byte the last code ends.
  std::uint64_t random = 88'172'645'463'325'252;
  for (int round = 0; round < 1'000; ++round) {
    std::string text;
    for (int size = round % 200; size >= 0; --size) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      text += static_cast<char>(random % 3 == 0 ? random >> 8 : 0);
    }
    if (inflated(deflated(text), text.size()) != text) {
      FAIL("round " << round);
    }
  }
  CHECK_FALSE(inflated("\xff\xff", 10).has_value());
}

}  // namespace ddprun
