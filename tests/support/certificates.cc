#include "tests/support/certificates.h"

#include <fstream>
#include <utility>

#include "tests/support/child_process.h"

namespace ddprun::test {
namespace {

/// Keys of a curve take no time to make.
std::vector<std::string> new_key(const std::string& file) {
  return {"-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", file};
}

}  // namespace

Certificates::Certificates(std::string authority) : authority_(std::move(authority)) {
  std::vector<std::string> words{"req",   "-x509", "-subj", "/CN=" + authority_,
                                 "-days", "2",     "-out",  folder_.file("ca.pem")};
  for (std::string& word : new_key(folder_.file("ca.key"))) {
    words.push_back(std::move(word));
  }
  openssl(std::move(words));
}

TlsFiles Certificates::issue(const std::string& name, int days, const std::string& purposes,
                             const std::string& uses) const {
  TlsFiles files{folder_.file("ca.pem"), folder_.file(name + ".pem"), folder_.file(name + ".key")};
  const std::string request = folder_.file(name + ".csr");
  std::vector<std::string> words{"req", "-subj", "/CN=" + name, "-out", request};
  for (std::string& word : new_key(files.key)) {
    words.push_back(std::move(word));
  }
  openssl(std::move(words));
  const std::string extensions = folder_.file(name + ".ext");
  std::ofstream(extensions) << (purposes.empty() ? "" : "extendedKeyUsage=" + purposes + "\n")
                            << (uses.empty() ? "" : "keyUsage=" + uses + "\n");
  openssl({"x509", "-req", "-in", request, "-CA", files.ca, "-CAkey", folder_.file("ca.key"),
           "-CAcreateserial", "-days", std::to_string(days), "-extfile", extensions, "-out",
           files.certificate});
  return files;
}

void Certificates::openssl(std::vector<std::string> words) const {
  words.insert(words.begin(), "openssl");
  ChildProcess program({.argv = std::move(words)});
  if (program.exit_code() != 0 && why_not_.empty()) {
    why_not_ = "the program openssl made no certificate: " + program.err();
  }
}

const Certificates& authority() {
  static const Certificates made;
  return made;
}

}  // namespace ddprun::test
