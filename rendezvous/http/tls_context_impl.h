// What TlsContext and TlsSession share of OpenSSL. For their sources alone.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/http/openssl_library.h"
#include "rendezvous/http/tls_context.h"

namespace ddprun {

struct TlsContext::Impl {
  TlsFiles files;
  const OpenSslLibrary& openssl;
  std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context;
};

/// The first error that OpenSSL has noted since it was cleared, in its words; all are forgotten.
inline std::string openssl_reason(const OpenSslLibrary& openssl) {
  const unsigned long first = openssl.ERR_get_error();
  const char* const reason = first != 0 ? openssl.ERR_reason_error_string(first) : nullptr;
  openssl.ERR_clear_error();
  return reason != nullptr ? reason : "unknown error";
}

}  // namespace ddprun
