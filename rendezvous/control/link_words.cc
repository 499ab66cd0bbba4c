#include "rendezvous/control/link_words.h"

#include <sodium.h>

#include <array>

#include "rendezvous/base/check.h"
#include "rendezvous/control/job_token.h"
#include "rendezvous/protocol/frame.h"

namespace ddprun {
namespace {

constexpr char kAsks = '?';
constexpr char kAnswers = '!';

/// Each part is signed with its length, so that no two lists of parts are the same bytes.
std::string signature(const LinkSecret& secret, std::string_view role, std::string_view nonce) {
  DDP_CHECK(nonce.size() == kTokenNonceBytes, "a question has its random bytes");
  const std::string key = secret.token ? secret.token->secret() : std::string();
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());  // NOLINT: the library's characters
  };
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes(key), key.size());
  const std::string place = to_text(secret.endpoint);
  for (const std::string_view part :
       {role, nonce, std::string_view(secret.job_id), std::string_view(place)}) {
    const std::string size = std::to_string(part.size()) + ":";
    crypto_auth_hmacsha256_update(&state, bytes(size), size.size());
    crypto_auth_hmacsha256_update(&state, bytes(part), part.size());
  }
  std::array<unsigned char, kTokenProofBytes> sum;
  crypto_auth_hmacsha256_final(&state, sum.data());
  return {sum.begin(), sum.end()};
}

/// The preamble first, so that another version is told from a stranger by whoever looks at packets.
std::string asked(const LinkSecret& secret, std::string_view nonce) {
  return preamble() + kAsks + std::string(nonce) + signature(secret, "ddprun where", nonce);
}

std::string answered(const LinkSecret& secret, std::string_view nonce) {
  return preamble() + kAnswers + signature(secret, "ddprun here", nonce);
}

/// In a time that does not depend on how much of it is right.
bool are_equal(std::string_view said, const std::string& right) {
  DDP_CHECK(right.size() <= kLinkDatagramBytesMax, "a datagram has its room");
  return said.size() == right.size() && sodium_memcmp(said.data(), right.data(), right.size()) == 0;
}

}  // namespace

std::string link_question(const LinkSecret& secret, const std::string& nonce) {
  return asked(secret, nonce);
}

// The question is made anew from its random bytes, and compared as a whole.
std::optional<std::string> link_answer(const LinkSecret& secret, std::string_view question) {
  constexpr std::size_t kBeforeNonce = kPreambleBytes + 1;
  if (question.size() != kBeforeNonce + kTokenNonceBytes + kTokenProofBytes) {
    return std::nullopt;
  }
  const std::string_view nonce = question.substr(kBeforeNonce, kTokenNonceBytes);
  return are_equal(question, asked(secret, nonce)) ? std::optional(answered(secret, nonce))
                                                   : std::nullopt;
}

/// The nonce is this question's own, so an answer that was kept from another proves nothing.
bool is_link_answer(const LinkSecret& secret, const std::string& nonce, std::string_view answer) {
  return are_equal(answer, answered(secret, nonce));
}

}  // namespace ddprun
