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
