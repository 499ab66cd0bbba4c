// Certificates of authorities that a test makes, by OpenSSL's program: files of PEM.
// tests/support/certificates.py is the same for Python.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/tls/tls_context.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {

class Certificates {
 public:
  /// With one authority.
  explicit Certificates(std::string authority = "authority");
  /// Empty: they can be made; otherwise why not.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }

  /// Of a node that the authority has signed; valid for so many days (-1: it has expired).
  /// `purposes`, of extendedKeyUsage, and `uses`, of keyUsage; empty: it names none, and is for
  /// all.
  TlsFiles issue(const std::string& name, int days = 2, const std::string& purposes = {},
                 const std::string& uses = {}) const;

 private:
  void openssl(std::vector<std::string> words) const;

  TempDir folder_;
  std::string authority_;
  mutable std::string why_not_;
};

/// The one of a test's process.
const Certificates& authority();

}  // namespace ddprun::test

/// In a test that needs certificates: skipped where they cannot be made.
#define NEEDS_OPENSSL()                                          \
  do {                                                           \
    ddprun::test::authority().issue("probe");                    \
    if (!ddprun::test::authority().why_not().empty()) {          \
      SKIP_TEST("program", ddprun::test::authority().why_not()); \
    }                                                            \
  } while (false)
