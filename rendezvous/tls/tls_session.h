// TlsSession: one side of one TLS connection (1.2 or 1.3; RFC 8446), as bytes: what came from the
// network goes in, what is to go there comes out. No I/O and no time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "rendezvous/tls/tls_context.h"

namespace ddprun {

/// Of a connection between two agents.
enum class TlsSide : std::uint8_t { connects, accepts };

/// Why a session does not trust the certificate that it was shown.
enum class Distrust : std::uint8_t {
  none,       ///< it does, or has not looked yet
  too_early,  ///< by this machine's clock; of the certificate, or of one that leads to it
  too_late,   ///< the same
  purpose,    ///< it is for other uses
  authority,  ///< nobody who is trusted has signed it
  other
};

class TlsSession {
 public:
  /// Of a client. `server`: the host name or numeric address for which its certificate has to be
  /// valid. What the client says first is there at once (take_output).
  TlsSession(std::shared_ptr<const TlsContext> context, const std::string& server);
  /// Of an agent, by a context of make_mutual(). Its certificate counts for any name: agents come
  /// and go at addresses that nobody knew when it was made.
  TlsSession(std::shared_ptr<const TlsContext> context, TlsSide side);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  /// From the network. Plain text that is complete by now is put behind `plain`.
  void receive(std::string_view bytes, std::string& plain);
  /// Plain text for the other side, once is_established().
  void send(std::string_view plain);
  /// For the network; may be there after each of these calls, also after a failure (an alert).
  std::string take_output();

  /// Both sides have shown who they are, as far as this one asks: a server that refuses a client's
  /// certificate says so later (TLS 1.3).
  [[nodiscard]] bool is_established() const;
  /// The other side has said that nothing more comes; an end without that may be somebody else's.
  [[nodiscard]] bool is_closed() const;
  /// Why nothing more can be said, a clause about the other side ("its certificate ..."); empty: it
  /// can.
  [[nodiscard]] const std::string& failure() const;
  /// Whether that is about a certificate, of either side: people can mend it.
  [[nodiscard]] bool failed_by_certificate() const;
  /// Of the other side's certificate alone.
  [[nodiscard]] Distrust distrust() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
