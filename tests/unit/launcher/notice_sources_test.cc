// --preempt-notice: who is named, and where the services are.
#include "launcher/notice_sources.h"

#include <catch2/catch.hpp>
#include <map>

namespace ddprun {
namespace {

using Variables = std::map<std::string, std::string>;

Result<std::vector<NoticeSource>> parse(const std::string& text, const Variables& variables = {}) {
  return parse_notice_sources(text, "--preempt-notice", [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST_CASE("the clouds' services are at their usual address, and a file where it is named") {
  const Endpoint usual{"169.254.169.254", 80};
  const auto sources = parse("aws, gcp,azure,file:/run/notice,aws,");
  REQUIRE(sources.has_value());
  CHECK(*sources == std::vector<NoticeSource>{{NoticeKind::aws, usual, {}},
                                              {NoticeKind::gcp, usual, {}},
                                              {NoticeKind::azure, usual, {}},
                                              {NoticeKind::file, {}, "/run/notice"}});
  CHECK(parse("")->empty());
}

TEST_CASE("a variable moves a cloud's service, and only that one's") {
  const Variables moved{{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://[fd00:ec2::254]/"},
                        {"GCE_METADATA_HOST", "localhost:8080"},
                        {"DDPRUN_AZURE_METADATA_HOST", ""}};
  const auto sources = parse("aws,gcp,azure", moved);
  REQUIRE(sources.has_value());
  CHECK(sources->at(0).server == Endpoint{"fd00:ec2::254", 80});
  CHECK(sources->at(1).server == Endpoint{"localhost", 8080});
  CHECK(sources->at(2).server == Endpoint{"169.254.169.254", 80});
  // Another cloud's variable may hold anything.
  CHECK(parse("azure", {{"GCE_METADATA_HOST", "a b"}}).has_value());
}

TEST_CASE("a word that announces nothing, or a variable without a host, is refused by its name") {
  for (const char* word : {"ec2", "AWS", "file:", "file", "aws gcp", "slurm"}) {
    const auto refused = parse(word);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().sentence() == "--preempt-notice: '" + std::string(word) +
                                            "' announces nothing; name aws, gcp, azure, or file: "
                                            "and a path");
  }
  for (const char* word : {"file: x", "file:~/x", "file:~"}) {
    const auto refused = parse(word);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().sentence() ==
          "--preempt-notice: '" + std::string(word) +
              "' begins its path with a blank or ~, which no shell resolves; write for example "
              "file:/run/notice");
  }
  CHECK(parse("file:a ~")->front().path == "a ~");
  const std::string aws = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
  for (const char* value : {"https://169.254.169.254", "169.254.169.254", "http://", "http://a:b",
                            "http://a/b", "http://a:0", "ftp://a"}) {
    const auto refused = parse("aws", {{aws, value}});
    CAPTURE(value);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().where == aws + "='" + value + "'");
  }
  CHECK_FALSE(parse("gcp", {{"GCE_METADATA_HOST", "http://metadata"}}).has_value());
  CHECK_FALSE(parse("azure", {{"DDPRUN_AZURE_METADATA_HOST", ":80"}}).has_value());
}

}  // namespace
}  // namespace ddprun
