// What the clouds' metadata services are asked, and what their answers mean, by the texts of their
// documentation.
#include "agent/notice/metadata_service.h"

#include <catch2/catch.hpp>
#include <map>

namespace ddprun {
namespace {

using std::chrono::milliseconds;

constexpr char kAction[] = R"({"action": "terminate", "time": "2017-09-18T08:22:00Z"})";

/// The header of a question; empty: it has none.
std::string header(const HttpCall& question, const std::string& name) {
  for (const auto& [known, value] : question.headers) {
    if (known == name) {
      return value;
    }
  }
  return {};
}

/// An answer of GCP's metadata server.
HttpReply google(unsigned status, const std::string& body, const std::string& etag) {
  return {status, body, {{"ETag", etag}, {"Metadata-Flavor", "Google"}}};
}

std::unique_ptr<MetadataService> only(NoticeKind kind) {
  auto services = metadata_services(kind);
  REQUIRE(services.size() == 1);
  return std::move(services.front());
}

/// Told once that it has a token.
std::unique_ptr<MetadataService> aws_with_token() {
  auto aws = only(NoticeKind::aws);
  const Heard heard = aws->hear({200, "token-1"});
  CHECK((heard.complaint.empty() && heard.pause == milliseconds(0)));
  return aws;
}

/// Knows that its VM is vm_1.
std::unique_ptr<MetadataService> azure_with_name() {
  auto azure = only(NoticeKind::azure);
  CHECK(azure->hear({200, "vm_1"}).pause == milliseconds(0));
  return azure;
}

std::string azure_event(const std::string& type, const std::string& vm,
                        const std::string& not_before = "Mon, 19 Sep 2022 18:29:47 GMT") {
  return R"({"EventId": "602d9444-d2cd-49c7-8624-8643e7171297", "EventType": ")" + type +
         R"(", "ResourceType": "VirtualMachine", "Resources": ["other", ")" + vm +
         R"("], "EventStatus": "Scheduled", "NotBefore": ")" + not_before + R"("})";
}

std::string azure_events(const std::string& events) {
  return R"({"DocumentIncarnation": 1, "Events": [)" + events + "]}";
}

TEST_CASE("aws: a token comes first, then the interruption notice is asked for with it") {
  const auto aws = only(NoticeKind::aws);
  CHECK(aws->next().method == "PUT");
  CHECK(aws->next().target == "/latest/api/token");
  CHECK(header(aws->next(), "X-aws-ec2-metadata-token-ttl-seconds") == "21600");
  CHECK(aws->hear({200, "abc=="}).notice.empty());
  CHECK(aws->next().method == "GET");
  CHECK(aws->next().target == "/latest/meta-data/spot/instance-action");
  CHECK(header(aws->next(), "X-aws-ec2-metadata-token") == "abc==");
  CHECK(aws->hear({404, ""}).pause == milliseconds(5'000));
  const Heard heard = aws->hear({200, kAction});
  CHECK(heard.notice == "aws: terminate of the spot instance at 2017-09-18T08:22:00Z");
}

TEST_CASE("aws: a token that has expired is renewed at once, one that is refused anew is not") {
  const auto aws = aws_with_token();
  CHECK(aws->hear({404, ""}).complaint.empty());
  const Heard expired = aws->hear({401, ""});
  CHECK((expired.complaint.empty() && expired.pause == milliseconds(0)));
  CHECK(aws->next().method == "PUT");
  CHECK(aws->hear({200, "token-2"}).complaint.empty());
  CHECK(header(aws->next(), "X-aws-ec2-metadata-token") == "token-2");
  const Heard refused = aws->hear({401, ""});
  CHECK((!refused.complaint.empty() && refused.pause == milliseconds(5'000)));
  CHECK(aws->next().method == "PUT");
}

TEST_CASE("aws: a token that would not fit into a header is none") {
  for (const char* bad : {"", "a b", "a\r\nX-Evil: 1", "a\x7f"}) {
    const auto aws = only(NoticeKind::aws);
    const Heard heard = aws->hear({200, bad});
    CHECK((!heard.complaint.empty() && heard.pause == milliseconds(5'000)));
    CHECK(aws->next().method == "PUT");
  }
  const auto aws = only(NoticeKind::aws);
  CHECK(aws->hear({200, std::string(1'024, 'x')}).complaint.empty());
  CHECK_FALSE(only(NoticeKind::aws)->hear({200, std::string(1'025, 'x')}).complaint.empty());
  CHECK(only(NoticeKind::aws)->hear({403, ""}).complaint ==
        "it answers 403 '' to PUT /latest/api/token");
}

TEST_CASE("aws: the rebalance recommendation is asked for once a minute, and is a remark") {
  const auto aws = aws_with_token();
  int polls = 0;
  while (aws->next().target == "/latest/meta-data/spot/instance-action" && polls < 100) {
    ++polls;
    CHECK(aws->hear({404, ""}).notice.empty());
  }
  CHECK(polls == 12);
  CHECK(aws->next().target == "/latest/meta-data/events/recommendations/rebalance");
  const Heard heard = aws->hear({200, R"({"noticeTime": "2020-10-26T23:11:50Z"})"});
  CHECK(heard.notice.empty());
  CHECK(heard.remark ==
        "aws: since 2020-10-26T23:11:50Z the spot instance is at an elevated risk of "
        "interruption; the job goes on");
  CHECK(aws->next().target == "/latest/meta-data/spot/instance-action");
}

TEST_CASE("aws: what no documentation describes is a complaint, and never a notice") {
  for (const char* body : {"", "terminate", "[]", "null", R"({"action": 1})", R"({"time": "x"})",
                           "<html>", "{\"action\": \"terminate\""}) {
    const auto aws = aws_with_token();
    const Heard heard = aws->hear({200, body});
    CAPTURE(body);
    CHECK(heard.notice.empty());
    CHECK((!heard.complaint.empty() && heard.pause == milliseconds(5'000)));
    CHECK(aws->hear({200, kAction}).notice.starts_with("aws: terminate"));
  }
  CHECK_FALSE(aws_with_token()->hear({500, kAction}).complaint.empty());
  // As large as the client lets an answer be, and as deep.
  const std::string deep = std::string(32'768, '[') + std::string(32'768, ']');
  CHECK_FALSE(aws_with_token()->hear({200, deep}).complaint.empty());
  CHECK_FALSE(azure_with_name()->hear({200, deep}).complaint.empty());
}

TEST_CASE("what a service says stays on its line, and is cut") {
  const Heard heard = aws_with_token()->hear({200, R"({"action": "stop\n\u001b[31m"})"});
  CHECK(heard.notice == "aws: stop??[31m of the spot instance");
  CHECK(quoted_from(std::string(100, 'x')).size() == 100);
  CHECK(quoted_from(std::string(101, 'x')) == std::string(100, 'x') + "...");
  // Not within a letter of UTF-8: one of two bytes, of three, of four.
  const std::string begin(99, 'x');
  for (const char* letter : {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    CHECK(quoted_from(begin + letter) == begin + "...");
  }
  CHECK(quoted_from(std::string(98, 'x') + "\xc3\xa4y") == std::string(98, 'x') + "\xc3\xa4...");
  CHECK(quoted_from(std::string(200, '\x80')) == std::string(97, '\x80') + "...");  // no UTF-8
}

TEST_CASE("gcp: the server is asked for the value, then told to answer when it changes") {
  auto services = metadata_services(NoticeKind::gcp);
  REQUIRE(services.size() == 2);
  MetadataService& preempted = *services.front();
  CHECK(preempted.next().target == "/computeMetadata/v1/instance/preempted");
  CHECK(header(preempted.next(), "Metadata-Flavor") == "Google");
  CHECK(preempted.hear(google(200, "FALSE", "4d1f")).complaint.empty());
  CHECK(preempted.next().target ==
        "/computeMetadata/v1/instance/preempted?wait_for_change=true&timeout_sec=300&"
        "last_etag=4d1f");
  CHECK(preempted.next().patience > std::chrono::seconds(300));
  // The wait is over, and nothing has changed.
  CHECK(preempted.hear(google(200, "FALSE", "4d1f")).notice.empty());
  CHECK(preempted.hear(google(200, "TRUE", "77")).notice ==
        "gcp: the VM is preempted within 30 seconds");
  CHECK(services.back()->next().target == "/computeMetadata/v1/instance/maintenance-event");
}

TEST_CASE("gcp: a termination for maintenance is a notice, a live migration a remark") {
  auto services = metadata_services(NoticeKind::gcp);
  MetadataService& maintenance = *services.back();
  const Heard none = maintenance.hear(google(200, "NONE", "1"));
  CHECK((none.notice.empty() && none.remark.empty() && none.complaint.empty()));
  const Heard moves = maintenance.hear(google(200, "MIGRATE_ON_HOST_MAINTENANCE", "2"));
  CHECK((moves.notice.empty() && !moves.remark.empty()));
  CHECK(maintenance.hear(google(200, "TERMINATE_ON_HOST_MAINTENANCE", "3")).notice ==
        "gcp: TERMINATE_ON_HOST_MAINTENANCE");
}

TEST_CASE("gcp: who is not Google's server, or answers without an ETag, is not asked in a hurry") {
  auto services = metadata_services(NoticeKind::gcp);
  MetadataService& preempted = *services.front();
  const Heard stranger = preempted.hear({200, "TRUE", {{"ETag", "1"}}});
  CHECK((stranger.notice.empty() && !stranger.complaint.empty()));
  CHECK_FALSE(preempted.hear(google(503, "TRUE", "1")).complaint.empty());
  CHECK_FALSE(preempted.hear(google(200, "yes", "1")).complaint.empty());
  for (const char* etag : {"", "a&b", "a b"}) {
    CHECK(preempted.hear(google(200, "FALSE", etag)).pause >= milliseconds(5'000));
    CHECK(preempted.next().target == "/computeMetadata/v1/instance/preempted");
  }
}

TEST_CASE("azure: the events of this VM that end its processes are notices") {
  const std::map<std::string, bool> types{{"Preempt", true},  {"Terminate", true}, {"Reboot", true},
                                          {"Redeploy", true}, {"Freeze", false},   {"Sing", false}};
  for (const auto& [type, is_notice] : types) {
    CAPTURE(type);
    const auto azure = azure_with_name();
    const Heard other = azure->hear({200, azure_events(azure_event(type, "vm_10"))});
    CHECK((other.notice.empty() && other.remark.empty() && other.complaint.empty()));
    // Names of resources are the same in upper and lower case.
    const Heard heard = azure->hear({200, azure_events(azure_event(type, "VM_1"))});
    const std::string clause =
        "azure: " + type + " of the VM not before Mon, 19 Sep 2022 18:29:47 GMT";
    CHECK(heard.notice == (is_notice ? clause : ""));
    CHECK(heard.remark == (is_notice ? "" : clause + "; the job goes on"));
    CHECK(heard.pause == milliseconds(1'000));
  }
}

TEST_CASE("azure: an event that has begun, and one among others, is told") {
  const auto azure = azure_with_name();
  const std::string events = azure_event("Freeze", "vm_1") + ", 17, " +
                             azure_event("Preempt", "vm_2") + ", " +
                             azure_event("Preempt", "vm_1", "");
  CHECK(azure->hear({200, azure_events(events)}).notice == "azure: Preempt of the VM now");
}

TEST_CASE("azure: the name of the VM comes first, and the first question has time to enable") {
  const auto azure = only(NoticeKind::azure);
  CHECK(azure->next().target ==
        "/metadata/instance/compute/name?api-version=2021-02-01&format=text");
  CHECK(header(azure->next(), "Metadata") == "true");
  CHECK_FALSE(azure->hear({200, ""}).complaint.empty());
  CHECK_FALSE(azure->hear({200, std::string(129, 'n')}).complaint.empty());
  CHECK_FALSE(azure->hear({400, "vm_1"}).complaint.empty());
  CHECK_FALSE(azure->hear({200, "vm\x1b[2J"}).complaint.empty());
  CHECK(azure->hear({200, "vm_1\n"}).complaint.empty());
  CHECK(azure->next().target == "/metadata/scheduledevents?api-version=2020-07-01");
  CHECK(header(azure->next(), "Metadata") == "true");
  CHECK(azure->next().patience > std::chrono::seconds(120));
  CHECK(azure->hear({200, azure_events("")}).complaint.empty());
  CHECK(azure->next().patience < std::chrono::seconds(60));
}

TEST_CASE("azure: what no documentation describes is a complaint, and never a notice") {
  for (const char* body : {"", "[]", "{}", R"({"Events": {}})", R"({"Events": "Preempt"})", "{"}) {
    CAPTURE(body);
    const Heard heard = azure_with_name()->hear({200, body});
    CHECK((heard.notice.empty() && !heard.complaint.empty()));
    CHECK(heard.pause == milliseconds(5'000));
  }
  const Heard odd = azure_with_name()->hear({200, azure_events(R"({"Resources": "vm_1"}, 7)")});
  CHECK((odd.notice.empty() && odd.complaint.empty()));
  const std::string untyped = R"({"EventType": 7, "Resources": ["vm_1"]})";
  for (const std::string& event : {untyped, std::string(R"({"Resources": ["vm_1"]})")}) {
    const Heard heard = azure_with_name()->hear({200, azure_events(event)});
    CHECK((heard.notice.empty() && heard.remark.empty() && !heard.complaint.empty()));
  }
  // It hides none of the events that can be read.
  const std::string both = untyped + ", " + azure_event("Preempt", "vm_1");
  CHECK(azure_with_name()->hear({200, azure_events(both)}).notice.starts_with("azure: Preempt"));
}

}  // namespace
}  // namespace ddprun
