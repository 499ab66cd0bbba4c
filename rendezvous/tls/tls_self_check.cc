#include "rendezvous/tls/tls_self_check.h"

#include <string>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/tls/tls_session.h"

namespace ddprun {
namespace {

/// Whether there was anything to pass.
bool pass(TlsSession& from, TlsSession& to) {
  const std::string bytes = from.take_output();
  std::string plain;
  to.receive(bytes, plain);
  DDP_CHECK(plain.empty(), "nothing but a handshake is said");
  return !bytes.empty();
}

/// `as`: the purpose that the certificate was looked at for.
Error why_not(const TlsFiles& files, const TlsSession& judge, const char* as) {
  const std::string& failure = judge.failure();
  switch (judge.distrust()) {
    case Distrust::too_late:
      return {
          "has expired, or a certificate that leads to it in this file or in " + files.ca + " has",
          files.certificate, "give a certificate that is valid now"};
    case Distrust::purpose:
      return {std::string("is not for the purpose ") + as +
                  " (by extendedKeyUsage or keyUsage, of it or of one that leads to it), and each "
                  "agent connects and is connected to",
              files.certificate,
              "give a certificate for both serverAuth and clientAuth, and for digitalSignature "
              "where it names a keyUsage"};
    case Distrust::authority:
      return {"is not signed by an authority in " + files.ca, files.certificate,
              "give a certificate of that authority, with those between the two behind it, or the "
              "file of its own authority; two authorities in one file need different names"};
    case Distrust::none:
    case Distrust::too_early:
    case Distrust::other:
      break;
  }
  return {"cannot be used with the authorities in " + files.ca + ": " + failure, files.certificate,
          "give a valid certificate of one of them"};
}

}  // namespace

/// The side that looks at a certificate says what is wrong with it; the other one has an alert of
/// it, which is coarser. The one that connects looks first (RFC 8446, 2).
Result<void> check_with_itself(const std::shared_ptr<const TlsContext>& context) {
  DDP_CHECK(context != nullptr, "there are files to check");
  TlsSession connects(context, TlsSide::connects);
  TlsSession accepts(context, TlsSide::accepts);
  bool said = true;
  while (said) {
    said = pass(connects, accepts);
    said = pass(accepts, connects) || said;
  }
  for (const auto& [judge, as] : {std::pair{&connects, "serverAuth"}, {&accepts, "clientAuth"}}) {
    if (judge->distrust() == Distrust::too_early) {
      return {};
    }
    if (judge->distrust() != Distrust::none) {
      return why_not(context->files(), *judge, as);
    }
  }
  // No certificate is to blame; such as a key of a kind that TLS 1.3 does not have.
  for (const TlsSession* const side : {&accepts, &connects}) {
    if (!side->failure().empty()) {
      return why_not(context->files(), *side, "");
    }
  }
  DDP_CHECK(connects.is_established() && accepts.is_established(), "a handshake fails or ends");
  return {};
}

}  // namespace ddprun
