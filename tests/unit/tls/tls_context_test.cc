#include "rendezvous/tls/tls_context.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/certificates.h"
#include "tests/support/skip.h"

using namespace ddprun;
using ddprun::test::Certificates;
using ddprun::test::read_file;

TEST_CASE("an agent's certificates are read again when their files change", "[tls]") {
  Certificates authority;
  const TlsFiles files = authority.issue("one");
  if (!authority.why_not().empty()) {
    SKIP_TEST("program", authority.why_not());
  }
  const auto first = TlsContext::make_mutual(files);
  REQUIRE(first.has_value());
  authority.issue("one");
  const auto second = TlsContext::renewed(*first);
  REQUIRE(second.has_value());
  CHECK(*second != *first);

  // The key of the certificate before: somebody is in the midst of replacing both.
  const std::string key = read_file(files.key);
  authority.issue("one");
  std::ofstream(files.key, std::ios::trunc) << key;
  const auto torn = TlsContext::renewed(*second);
  REQUIRE_FALSE(torn.has_value());
  CHECK(torn.error().todo == "give the key of that certificate");
}

TEST_CASE("files that do not do are named, with what to do", "[tls]") {
  Certificates authority;
  const TlsFiles one = authority.issue("one");
  const TlsFiles two = authority.issue("two");
  if (!authority.why_not().empty()) {
    SKIP_TEST("program", authority.why_not());
  }
  const auto why = [](const TlsFiles& files) {
    const auto made = TlsContext::make_mutual(files);
    REQUIRE_FALSE(made.has_value());
    return made.error().sentence();
  };
  CHECK(why({one.ca, one.certificate, two.key}).find("give the key of that certificate") !=
        std::string::npos);
  CHECK(why({one.ca, one.certificate, one.key + ".absent"}).find("cannot read the private key") !=
        std::string::npos);
  CHECK(why({one.key, one.certificate, one.key}).find("is no file of authorities") !=
        std::string::npos);
}
