// OpenSslLibrary: what ddprun needs of the machine's own OpenSSL (3, or 1.1.1), opened at run time
// by the first who asks: most jobs speak no TLS, and what a distribution mends in it reaches ddprun
// without a new build. The types are those of OpenSSL's headers, and none is used that the two
// versions have differently.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "rendezvous/base/result.h"

namespace ddprun {

/// The functions, named as in OpenSSL's manual.
#define DDP_OPENSSL_FUNCTIONS(X)        \
  X(TLS_client_method)                  \
  X(TLS_method)                         \
  X(SSL_CTX_new)                        \
  X(SSL_CTX_free)                       \
  X(SSL_CTX_ctrl)                       \
  X(SSL_CTX_set_verify)                 \
  X(SSL_CTX_set_num_tickets)            \
  X(SSL_CTX_set_alpn_protos)            \
  X(SSL_CTX_set_default_passwd_cb)      \
  X(SSL_CTX_set_default_verify_paths)   \
  X(SSL_CTX_load_verify_locations)      \
  X(SSL_CTX_use_certificate_chain_file) \
  X(SSL_CTX_use_PrivateKey_file)        \
  X(SSL_CTX_check_private_key)          \
  X(SSL_new)                            \
  X(SSL_free)                           \
  X(SSL_ctrl)                           \
  X(SSL_set_bio)                        \
  X(SSL_set_connect_state)              \
  X(SSL_set_accept_state)               \
  X(SSL_set1_host)                      \
  X(SSL_get0_param)                     \
  X(SSL_do_handshake)                   \
  X(SSL_read)                           \
  X(SSL_write)                          \
  X(SSL_get_error)                      \
  X(SSL_get_verify_result)              \
  X(X509_VERIFY_PARAM_set1_ip_asc)      \
  X(X509_verify_cert_error_string)      \
  X(BIO_new)                            \
  X(BIO_s_mem)                          \
  X(BIO_read)                           \
  X(BIO_write)                          \
  X(BIO_ctrl_pending)                   \
  X(ERR_clear_error)                    \
  X(ERR_get_error)                      \
  X(ERR_reason_error_string)

struct OpenSslLibrary {
// NOLINTNEXTLINE(bugprone-macro-parentheses): it declares that name
#define DDP_OPENSSL_POINTER(function) decltype(&::function) function = nullptr;
  DDP_OPENSSL_FUNCTIONS(DDP_OPENSSL_POINTER)
#undef DDP_OPENSSL_POINTER
};

/// Opened once per process, and never closed. The error names the files that were looked for.
Result<const OpenSslLibrary*> openssl_library();

}  // namespace ddprun
