// TlsWords: how TLS is known by its first byte, and what an agent with it and one without it say to
// each other. Internal to control.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/control/job_token.h"

namespace ddprun {

/// A record of a handshake (RFC 8446, 5.1). Our preamble begins with 'D', and the types of the
/// store's protocol are up to 8, so one port can take all three.
inline bool is_tls_hello(std::string_view first_bytes) {
  return !first_bytes.empty() && first_bytes.front() == '\x16';
}

/// Said in plain text, which each of them reads, to the one without and to the one with it.
inline TokenRefusal tls_is_missing() {
  return {"the job has TLS, and this agent was started without it",
          "give every agent --tls-ca, --tls-cert and --tls-key"};
}
inline TokenRefusal tls_is_not_spoken() {
  return {"it has TLS, and the job has none",
          "give every agent --tls-ca, --tls-cert and --tls-key, or none of them"};
}

/// What is answered, in a job without credentials, to who comes with them.
inline TokenRefusal refusal_of_credentials(std::uint16_t version, std::string_view first_bytes) {
  return is_tls_hello(first_bytes) ? tls_is_not_spoken() : refusal_of(version, false);
}

/// For people at the agent that has connected: why, and what to do.
inline std::string not_of_this_job(const std::string& clause) {
  return "who listens there is not of this job: " + clause;
}
inline constexpr const char* kTlsRemedy =
    "give every agent a valid certificate of one authority (--tls-ca, --tls-cert, --tls-key)";

}  // namespace ddprun
