// What TlsContext and TlsSession share of OpenSSL. For their sources alone.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/tls/openssl_library.h"
#include "rendezvous/tls/tls_context.h"

namespace ddprun {

/// What changes when a file is written or replaced.
struct TlsFileState {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  std::chrono::nanoseconds changed{};  ///< ctime(7), by the clock of the file's machine

  friend bool operator==(const TlsFileState&, const TlsFileState&) = default;
};
/// Of the authorities, the certificate and the key.
using TlsFileStates = std::array<TlsFileState, 3>;

struct TlsContext::Impl {
  Kind kind;
  TlsFiles files;
  /// As they were read. None: they may have been in the midst of a change.
  std::optional<TlsFileStates> read_as;
  const OpenSslLibrary& openssl;
  std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context;

  Result<void> use_files();
};

/// The first error that OpenSSL has noted since it was cleared, in its words; all are forgotten.
inline std::string openssl_reason(const OpenSslLibrary& openssl) {
  const unsigned long first = openssl.ERR_get_error();
  const char* const reason = first != 0 ? openssl.ERR_reason_error_string(first) : nullptr;
  openssl.ERR_clear_error();
  return reason != nullptr ? reason : "unknown error";
}

}  // namespace ddprun
