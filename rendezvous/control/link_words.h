// LinkWords: the two datagrams by which an agent finds the host of the job's first endpoint on a
// network that both are attached to, where the endpoint's own address leads nowhere: its name may
// mean an address of a management network. Pure but for the random bytes.
//
//   who searches, to the broadcast addresses of its networks, at the endpoint's port:
//     "DDPRUN", u16 version, '?', 32 random bytes A, HMAC(token, "ddprun where" A job-id endpoint)
//   the host of the endpoint, to who asked:
//     "DDPRUN", u16 version, '!', HMAC(token, "ddprun here" A job-id endpoint)
//
// The endpoint is HOST:PORT as the user wrote it, so a job of the same id that meets elsewhere does
// not answer. Without a token the key is empty. HMAC is HMAC-SHA-256 (RFC 2104). What is found is
// an address to connect to, and no more: there the agents greet as anywhere.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/endpoint.h"

namespace ddprun {

class JobToken;

/// What both sides sign.
struct LinkSecret {
  std::shared_ptr<const JobToken> token;  ///< null: none
  std::string job_id;
  Endpoint endpoint;
};

/// Longer than any of the two.
inline constexpr std::size_t kLinkDatagramBytesMax = 128;

/// `nonce`: kTokenNonceBytes.
std::string link_question(const LinkSecret& secret, const std::string& nonce);
/// The answer to a question of this job; none to anything else.
std::optional<std::string> link_answer(const LinkSecret& secret, std::string_view question);
/// Whether this is the answer to the question with that nonce.
bool is_link_answer(const LinkSecret& secret, const std::string& nonce, std::string_view answer);

}  // namespace ddprun
