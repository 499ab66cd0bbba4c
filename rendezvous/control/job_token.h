// JobToken: a secret that all agents of a job have (--job-token-file, DDPRUN_JOB_TOKEN). Who
// connects to an agent proves that it has it, and so does the agent, before anything else is said:
//
//   who connects   preamble with kTokenVersion, 32 random bytes A
//   the agent      the same preamble, 32 random bytes B
//   who connects   HMAC(token, "ddprun connects", A, B, place)
//   the agent      the same preamble, HMAC(token, "ddprun accepts", A, B, place)
//
// The place is the agent's address and port as each side sees its end of the connection: so who
// passes a proof on between two others, at an address of its own, has none. Then all goes on as
// without a token. HMAC is HMAC-SHA-256 (RFC 2104, RFC 6234), by libsodium. Who
// connects proves it first: an agent signs nothing for a stranger, who could try out tokens with it
// at leisure. Nothing is encrypted (docs/job-token.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"
#include "rendezvous/protocol/frame.h"

namespace ddprun {

/// Of the preamble on a connection that begins with the proof. To an agent without a token it is
/// another version, which is answered in a sentence.
inline constexpr std::uint16_t kTokenVersionBit = 0x8000;
inline constexpr std::uint16_t kTokenVersion = kProtocolVersion | kTokenVersionBit;

inline constexpr std::size_t kTokenNonceBytes = 32;
inline constexpr std::size_t kTokenProofBytes = 32;

class JobToken {
 public:
  /// Shorter secrets can be guessed by trying them.
  static constexpr std::size_t kBytesMin = 16;
  static constexpr std::size_t kBytesMax = 4096;

  /// What a file has, or a variable: white space around it does not count. `where` names it.
  static Result<JobToken> from(std::string_view text, const std::string& where);

  enum class Side : std::uint8_t { connects, accepts };
  /// What is signed beside the side.
  struct Facts {
    std::string_view nonce_a;  ///< of who connects
    std::string_view nonce_b;  ///< of the agent
    std::string_view place;    ///< "10.0.0.1 29400"
  };
  /// kTokenProofBytes
  [[nodiscard]] std::string proof(Side of, const Facts& facts) const;
  /// In a time that does not depend on how much of it is right.
  [[nodiscard]] bool is_proof(std::string_view said, Side of, const Facts& facts) const;

  /// For an agent that this process starts.
  [[nodiscard]] const std::string& secret() const { return secret_; }

 private:
  explicit JobToken(std::string secret) : secret_(std::move(secret)) {}

  std::string secret_;
};

/// The place of an agent's end of a connection, whose address is numeric: "10.0.0.1 29400". Each
/// host numbers its interfaces for itself, so that of fe80::1%eth0 does not count.
std::string token_place(const std::string& host, std::uint16_t port);
/// kTokenNonceBytes, by the kernel.
std::string random_nonce();

/// What is answered to who comes.
struct TokenRefusal {
  std::string why;
  std::string todo;
};
/// Its preamble has this version, and not the one that is spoken here: it has no token although one
/// is asked for, or the other way round, or it is another ddprun.
TokenRefusal refusal_of(std::uint16_t version, bool token_is_asked_for);
TokenRefusal wrong_token_given();

}  // namespace ddprun
