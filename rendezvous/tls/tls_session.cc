#include "rendezvous/tls/tls_session.h"

#include <arpa/inet.h>

#include <array>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/tls/tls_context_impl.h"

namespace ddprun {
namespace {

/// TLS' own limit for one record (RFC 8446, 5.1): what SSL_read gives at once.
constexpr std::size_t kRecordBytesMax = 16 * 1'024;

bool is_numeric_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

/// By OpenSSL's codes. They are the same in 1.1.1 and 3; its words are not.
Distrust distrust_of(long verified) {
  switch (verified) {
    case X509_V_OK:
      return Distrust::none;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return Distrust::too_early;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return Distrust::too_late;
    case X509_V_ERR_INVALID_PURPOSE:
      return Distrust::purpose;
    // The last: of an authority with the same name and another key.
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return Distrust::authority;
    default:
      return Distrust::other;
  }
}

}  // namespace

struct TlsSession::Impl {
  explicit Impl(std::shared_ptr<const TlsContext> the_context)
      : context(std::move(the_context)),
        openssl(context->impl_->openssl),
        ssl(openssl.SSL_new(context->impl_->context.get()), openssl.SSL_free),
        in(openssl.BIO_new(openssl.BIO_s_mem())),
        out(openssl.BIO_new(openssl.BIO_s_mem())) {
    DDP_CHECK(ssl && in != nullptr && out != nullptr, "OpenSSL has memory");
    openssl.SSL_set_bio(ssl.get(), in, out);
  }

  /// A service has a name, and a certificate for that name: without it whoever has any certificate
  /// that the machine trusts could answer in its place.
  void ask(const std::string& server) {
    openssl.SSL_set_connect_state(ssl.get());
    if (is_numeric_address(server)) {
      openssl.X509_VERIFY_PARAM_set1_ip_asc(openssl.SSL_get0_param(ssl.get()), server.c_str());
    } else {
      openssl.SSL_set1_host(ssl.get(), server.c_str());
      // SSL_set_tlsext_host_name() is a macro. An address is no name there (RFC 6066, 3).
      openssl.SSL_ctrl(ssl.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                       const_cast<char*>(server.c_str()));
    }
    shake_hands();
  }

  /// Who accepts waits for the first words of the other side.
  void meet(TlsSide side) {
    among_agents = true;
    if (side == TlsSide::accepts) {
      openssl.SSL_set_accept_state(ssl.get());
    } else {
      openssl.SSL_set_connect_state(ssl.get());
      shake_hands();
    }
  }

  /// False: nothing can go on before more has come from the network, or ever.
  bool succeeded(int returned) {
    if (returned > 0) {
      return true;
    }
    // Of the calls before, only the newest counts: its own errors are in this thread's list.
    const int error = openssl.SSL_get_error(ssl.get(), returned);
    if (error == SSL_ERROR_ZERO_RETURN) {
      closed = true;
    } else if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE && failure.empty()) {
      failure = why();
    }
    return false;
  }

  /// A certificate that is not trusted is the one reason that people meet and can mend, and its
  /// place in OpenSSL's list of errors depends on the version; so it is asked for by itself.
  std::string why() {
    const long verified = openssl.SSL_get_verify_result(ssl.get());
    if (verified != X509_V_OK) {
      openssl.ERR_clear_error();
      by_certificate = true;
      return std::string("its certificate is not trusted: ") +
             openssl.X509_verify_cert_error_string(verified);
    }
    const std::string reason = openssl_reason(openssl);
    if (reason == "wrong version number") {
      return "it does not speak TLS";
    }
    // Of a side that has to show one.
    if (reason == "peer did not return a certificate") {
      by_certificate = true;
      return "it shows no certificate";
    }
    // An alert of the other side (RFC 8446, 6.2) about what this one has shown, or has not.
    constexpr std::string_view kAlert = "alert ";
    const std::size_t alert = reason.find(kAlert);
    const auto says = [&reason](const char* words) {
      return reason.find(words) != std::string::npos;
    };
    // The last: an authority of the same name and another key, whose signature is wrong.
    const bool is_about_ours =
        alert != std::string::npos &&
        (says("certificate") || says("unknown ca") || (among_agents && says("decrypt error")));
    by_certificate = is_about_ours;
    if (is_about_ours && among_agents) {
      return "it does not trust this agent's certificate: " + reason.substr(alert + kAlert.size());
    }
    return "TLS failed: " + reason +
           (is_about_ours ? "; it does not take this client's certificate, or misses one" : "");
  }

  void shake_hands() {
    openssl.ERR_clear_error();  // of earlier calls, which SSL_get_error() would take for this one's
    established = succeeded(openssl.SSL_do_handshake(ssl.get()));
    drain();
  }

  /// At once: OpenSSL's buffer keeps the size of the most that was ever in it.
  void drain() {
    const std::size_t size = openssl.BIO_ctrl_pending(out);
    if (size > 0) {
      const std::size_t had = output.size();
      output.resize(had + size);
      openssl.BIO_read(out, output.data() + had, static_cast<int>(size));
    }
  }

  /// Until nothing more is complete. What is no text, a ticket or a new key, is taken on the way.
  void read(std::string& plain) {
    std::array<char, kRecordBytesMax> record;
    int got = 0;
    do {
      openssl.ERR_clear_error();
      got = openssl.SSL_read(ssl.get(), record.data(), static_cast<int>(record.size()));
      if (succeeded(got)) {
        plain.append(record.data(), static_cast<std::size_t>(got));
      }
    } while (got > 0);
    drain();
  }

  /// By the record, for the same reason.
  void write(std::string_view plain) {
    while (!plain.empty() && failure.empty()) {
      const std::string_view record = plain.substr(0, kRecordBytesMax);
      plain.remove_prefix(record.size());
      openssl.ERR_clear_error();
      succeeded(openssl.SSL_write(ssl.get(), record.data(), static_cast<int>(record.size())));
      drain();
    }
  }

  std::shared_ptr<const TlsContext> context;
  const OpenSslLibrary& openssl;
  std::unique_ptr<SSL, decltype(&::SSL_free)> ssl;
  BIO* in;   ///< from the network; `ssl` owns both
  BIO* out;  ///< for the network
  std::string output;
  std::string failure;
  bool among_agents = false;
  bool established = false;
  bool closed = false;
  bool by_certificate = false;
};

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context, const std::string& server)
    : impl_(std::make_unique<Impl>(std::move(context))) {
  impl_->ask(server);
}

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context, TlsSide side)
    : impl_(std::make_unique<Impl>(std::move(context))) {
  impl_->meet(side);
}

TlsSession::~TlsSession() = default;

void TlsSession::receive(std::string_view bytes, std::string& plain) {
  if (!impl_->failure.empty() || impl_->closed) {
    return;
  }
  impl_->openssl.BIO_write(impl_->in, bytes.data(), static_cast<int>(bytes.size()));
  if (!impl_->established) {
    impl_->shake_hands();
  }
  if (impl_->established) {
    impl_->read(plain);
  }
}

void TlsSession::send(std::string_view plain) {
  DDP_CHECK(impl_->established, "who is at the other end is known before anything is said");
  impl_->write(plain);
}

std::string TlsSession::take_output() {
  return std::exchange(impl_->output, {});
}

bool TlsSession::is_established() const {
  return impl_->established;
}

bool TlsSession::is_closed() const {
  return impl_->closed;
}

const std::string& TlsSession::failure() const {
  return impl_->failure;
}

bool TlsSession::failed_by_certificate() const {
  return impl_->by_certificate;
}

Distrust TlsSession::distrust() const {
  return distrust_of(impl_->openssl.SSL_get_verify_result(impl_->ssl.get()));
}

}  // namespace ddprun
