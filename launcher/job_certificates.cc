#include "launcher/job_certificates.h"

#include <array>
#include <string>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

struct NamedFile {
  const char* option;
  const char* variable;
  std::optional<std::string> GivenCertificates::*given;
  std::string TlsFiles::*file;
};

constexpr std::array<NamedFile, 3> kFiles{
    {{"tls-ca", "DDPRUN_TLS_CA", &GivenCertificates::ca, &TlsFiles::ca},
     {"tls-cert", "DDPRUN_TLS_CERT", &GivenCertificates::certificate, &TlsFiles::certificate},
     {"tls-key", "DDPRUN_TLS_KEY", &GivenCertificates::key, &TlsFiles::key}}};

}  // namespace

// An empty name comes from a shell variable that is not set: a job that ran without TLS then would
// be open to all.
Result<std::optional<TlsFiles>> job_certificates(const GivenCertificates& options,
                                                 const Environment& environment,
                                                 const OptionOrigin& origin_of) {
  TlsFiles files;
  std::string given;
  std::string missing;
  for (const NamedFile& one : kFiles) {
    std::string& file = files.*one.file;
    std::string source = origin_of(one.option);
    const char* const variable = environment(one.variable);
    if (const auto& option = options.*one.given; option && option->empty()) {
      return Error{"it names no file", source, "name one, or leave the option out"};
    } else if (option) {
      file = *option;
    } else if (variable != nullptr && *variable == '\0') {
      return Error{"it names no file", one.variable, "name one, or unset the variable"};
    } else if (variable != nullptr) {
      file = variable;
      source = one.variable;
    }
    std::string& names = file.empty() ? missing : given;
    names += (names.empty() ? "" : " and ") + source;
  }
  DDP_CHECK(!given.empty() || !missing.empty(), "a file is given or missing");
  if (given.empty()) {
    return std::optional<TlsFiles>();
  }
  if (!missing.empty()) {
    return Error{"TLS needs " + missing + " too", given,
                 "give all three files, the same way on every node, or none"};
  }
  return std::optional<TlsFiles>(std::move(files));
}

}  // namespace ddprun
