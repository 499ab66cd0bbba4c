#include "rendezvous/tls/tls_self_check.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "tests/support/certificates.h"
#include "tests/support/skip.h"

using namespace ddprun;
using ddprun::test::authority;
using ddprun::test::Certificates;

namespace {

Result<void> checked(const TlsFiles& files) {
  const auto context = TlsContext::make_mutual(files);
  REQUIRE(context.has_value());
  return check_with_itself(*context);
}

/// What is wrong, about the file of the certificate.
std::string why(const TlsFiles& files) {
  const auto fit = checked(files);
  REQUIRE_FALSE(fit.has_value());
  CHECK(fit.error().where == files.certificate);
  CHECK_FALSE(fit.error().todo.empty());
  return fit.error().what;
}

}  // namespace

TEST_CASE("files that any peer would take pass", "[tls]") {
  NEEDS_OPENSSL();
  CHECK(checked(authority().issue("all")).has_value());
  CHECK(checked(authority().issue("both", 2, "serverAuth,clientAuth")).has_value());
  // Two authorities in one file are how a job goes from one to the other.
  const Certificates others("others");
  const TlsFiles ours = authority().issue("ours");
  const TlsFiles theirs = others.issue("theirs");
  const std::string both = theirs.ca + ".both";
  std::ofstream(both) << test::read_file(ours.ca) << test::read_file(theirs.ca);
  CHECK(checked({both, ours.certificate, ours.key}).has_value());
  CHECK(checked({both, theirs.certificate, theirs.key}).has_value());
}

TEST_CASE("a certificate that no peer would take is named, with the reason", "[tls]") {
  NEEDS_OPENSSL();
  CHECK(why(authority().issue("expired", -1)).find("has expired") == 0);
  const std::string no_purpose = "is not for the purpose ";
  const TlsFiles client = authority().issue("client", 2, "clientAuth");
  CHECK(why(client).find(no_purpose + "serverAuth") == 0);
  const TlsFiles server = authority().issue("server", 2, "serverAuth");
  CHECK(why(server).find(no_purpose + "clientAuth") == 0);
  const TlsFiles signs = authority().issue("signs", 2, "serverAuth,clientAuth", "keyCertSign");
  CHECK(why(signs).find(no_purpose) == 0);
  const TlsFiles good = authority().issue("good");
  const std::string unsigned_by = "is not signed by an authority in " + good.ca;
  const Certificates others("others");
  const TlsFiles stranger = others.issue("stranger");
  CHECK(why({good.ca, stranger.certificate, stranger.key}) == unsigned_by);
  // An authority of the same name, which was made anew.
  const Certificates again;
  const TlsFiles former = again.issue("former");
  CHECK(why({good.ca, former.certificate, former.key}) == unsigned_by);
}
