#include "rendezvous/control/job_token.h"

#include <fmt/core.h>
#include <sodium.h>
#include <sys/random.h>

#include <array>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

static_assert(kTokenProofBytes == crypto_auth_hmacsha256_BYTES);
static_assert((kProtocolVersion & kTokenVersionBit) == 0);

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());  // NOLINT: the library's characters
}

std::string_view without_space(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

}  // namespace

// A file that an editor wrote ends with a line break, and one that openssl wrote does too.
Result<JobToken> JobToken::from(std::string_view text, const std::string& where) {
  const std::string_view secret = without_space(text);
  const std::string_view todo = "write one with: openssl rand -hex 32";
  if (secret.size() < kBytesMin || secret.size() > kBytesMax) {
    return Error{secret.empty() ? "the job's token is empty"
                                : fmt::format("the job's token has {} bytes, and needs {} to {}",
                                              secret.size(), kBytesMin, kBytesMax),
                 where, std::string(todo)};
  }
  return JobToken(std::string(secret));
}

// Which side proves is a part of what is signed: otherwise an agent could be made to sign, as an
// answer, what it would accept as a proof.
std::string JobToken::proof(Side of, const Facts& facts) const {
  DDP_CHECK(facts.nonce_a.size() == kTokenNonceBytes && facts.nonce_b.size() == kTokenNonceBytes,
            "both sides have said their random bytes");
  DDP_CHECK(!facts.place.empty(), "a connection has an end at the agent");
  const std::string_view role = of == Side::connects ? "ddprun connects" : "ddprun accepts";
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes_of(secret_), secret_.size());
  for (const std::string_view part : {role, facts.nonce_a, facts.nonce_b, facts.place}) {
    crypto_auth_hmacsha256_update(&state, bytes_of(part), part.size());
  }
  std::array<unsigned char, kTokenProofBytes> sum;
  crypto_auth_hmacsha256_final(&state, sum.data());
  return {sum.begin(), sum.end()};
}

bool JobToken::is_proof(std::string_view said, Side of, const Facts& facts) const {
  const std::string right = proof(of, facts);
  return said.size() == right.size() && sodium_memcmp(said.data(), right.data(), right.size()) == 0;
}

std::string token_place(const std::string& host, std::uint16_t port) {
  return host.substr(0, host.find('%')) + " " + std::to_string(port);
}

std::string random_nonce() {
  std::string bytes(kTokenNonceBytes, '\0');
  // Up to 256 bytes come whole and without EINTR, once the kernel's pool is ready (getrandom(2)).
  DDP_CHECK(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
            "the kernel gives random bytes");
  return bytes;
}

// The bit is no part of the number that people compare.
TokenRefusal refusal_of(std::uint16_t version, bool token_is_asked_for) {
  const auto theirs = static_cast<std::uint16_t>(version & ~kTokenVersionBit);
  if (theirs != kProtocolVersion) {
    return {versions_clause("it", theirs, "the coordinator"),
            "install the same ddprun on all nodes"};
  }
  if (token_is_asked_for) {
    return {"the job has a token, and this agent was started without one",
            "give every agent the same --job-token-file"};
  }
  return {"it has a job token, and the job has none",
          "give every agent the same --job-token-file, or none"};
}

TokenRefusal wrong_token_given() {
  return {
      "its token is not the job's, or a proxy or address translation stands in between",
      "give every agent the same --job-token-file, and endpoints that are agents' own addresses"};
}

}  // namespace ddprun
