#include "rendezvous/control/link_words.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "rendezvous/control/job_token.h"

using namespace ddprun;

namespace {

std::shared_ptr<const JobToken> token(const std::string& secret) {
  return std::make_shared<const JobToken>(*JobToken::from(secret, "here"));
}

const Endpoint kPlace{"n1.site", 29400};

}  // namespace

TEST_CASE("The host of the same job and endpoint answers, and nobody else") {
  const auto secret = token("0123456789abcdef");
  const LinkSecret ours{secret, "job", kPlace};
  const std::string nonce = random_nonce();
  const std::string question = link_question(ours, nonce);
  CHECK(question.size() <= kLinkDatagramBytesMax);
  const auto answer = link_answer(ours, question);
  REQUIRE(answer);
  CHECK(is_link_answer(ours, nonce, *answer));
  CHECK_FALSE(is_link_answer(ours, random_nonce(), *answer));  // of an older question
  for (const LinkSecret& other :
       {LinkSecret{secret, "other", kPlace}, LinkSecret{secret, "job", {"n2.site", 29400}},
        LinkSecret{secret, "job", {"n1.site", 29401}}, LinkSecret{nullptr, "job", kPlace},
        LinkSecret{token("another 16 bytes or so"), "job", kPlace}}) {
    CHECK_FALSE(link_answer(other, question));
    CHECK_FALSE(is_link_answer(other, nonce, *answer));
  }
}

TEST_CASE("Without a token the job and the endpoint are what both know") {
  const LinkSecret ours{nullptr, "job", kPlace};
  const std::string nonce = random_nonce();
  const auto answer = link_answer(ours, link_question(ours, nonce));
  REQUIRE(answer);
  CHECK(is_link_answer(ours, nonce, *answer));
}

TEST_CASE("A datagram that is no question, or a changed one, is not answered") {
  const LinkSecret ours{nullptr, "job", kPlace};
  const std::string question = link_question(ours, random_nonce());
  CHECK_FALSE(link_answer(ours, ""));
  CHECK_FALSE(link_answer(ours, question.substr(1)));
  CHECK_FALSE(link_answer(ours, question + "x"));
  for (std::size_t i = 0; i < question.size(); ++i) {
    std::string changed = question;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CHECK_FALSE(link_answer(ours, changed));
  }
  CHECK_FALSE(is_link_answer(ours, random_nonce(), question));
}
