// Who is let into a job, and what those are told who are not.
#include "rendezvous/membership/admission.h"

#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

TEST_CASE("Rejections name the field and both values") {
  Story s(elastic(1, 2));
  auto d = s.description("n1");
  std::string expected;
  s.join("n0");
  SECTION("job id") {
    d.job_id = "other";
    expected = "this endpoint serves the job 'job', not 'other'";
  }
  SECTION("nodes") {
    d.max_nodes = 4;
    expected = "its --nnodes is '1:4', the job's is '1:2'";
  }
  SECTION("restarts") {
    d.max_restarts = 9;
    expected = "its --max-restarts is '9', the job's is '3'";
  }
  const std::size_t before = s.job().nodes();
  s.join(d);
  CHECK(s.only<Reject>().why == expected);
  CHECK(s.all<Welcome>().empty());
  CHECK(s.job().nodes() == before);
}

TEST_CASE("A job of one node refuses a witness: no other node could take it over") {
  const int nodes = GENERATE(1, 2);
  Story s(fixed(nodes));
  NodeDescription witness = s.description("w");
  witness.witness = true;
  s.join(witness);
  CHECK(s.all<Reject>().size() == (nodes == 1 ? 1 : 0));
  if (nodes == 1) {
    CHECK(s.only<Reject>().why.find("has no use for a witness") != std::string::npos);
  }
}

TEST_CASE("A witness that began a job without its options is named as what to mend") {
  MembershipOptions options = fixed(1);
  options.by_witness = true;
  Story s(options);
  auto d = s.description("n1");
  d.min_nodes = d.max_nodes = 2;
  s.join(d);
  CHECK(s.only<Reject>().why ==
        "its --nnodes is '2', and that of the witness that began this job is '1'");
  CHECK(s.only<Reject>().todo ==
        "give the witness the same --nnodes: it was at the endpoint before all nodes");
}

TEST_CASE("Nodes may run different programs") {
  Story s(fixed(2));
  auto d = s.description("n1");
  s.join("n0");
  d.program = "parameter_server";
  s.join(d);
  CHECK(s.all<Reject>().empty());
  CHECK(s.state() == JobState::running);
}

TEST_CASE("At a port that the system chose, who comes by an endpoint is not let in") {
  MembershipOptions options = elastic(1, 2);
  options.at_endpoint = false;
  Story s(options);
  auto d = s.description("n1");
  s.join(d);
  CHECK(s.job().nodes() == 1);
  d.by_endpoint = true;
  s.join(d);
  CHECK(s.only<Reject>().why ==
        "the agent at this port was given it by the system, and its job meets elsewhere");
  CHECK(s.job().nodes() == 1);
}

TEST_CASE("A node that remembers a job of another instance is no part of this one") {
  NodeDescription node;
  node.said_at = 100s;
  CHECK_FALSE(of_another_job(JobInstance{1}, node));
  node.past.emplace(Past{});
  node.past->instance = JobInstance{2};
  node.past->heartbeat_timeout = 3s;
  node.past->contact_at = 10s;
  CHECK(of_another_job(JobInstance{1}, node));
  CHECK_FALSE(of_another_job(JobInstance{2}, node));
  CHECK_FALSE(of_another_job(JobInstance{}, node));
  // The coordinator of that job was here, and nobody was elected in its place in time.
  node.past->at_endpoint = true;
  CHECK_FALSE(of_another_job(JobInstance{1}, node));
  node.past->contact_at = 90s;
  CHECK(of_another_job(JobInstance{1}, node));
}
