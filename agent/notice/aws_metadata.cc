#include "agent/notice/aws_metadata.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kPause{5'000};
constexpr int kPollsPerRebalance = 12;  // once a minute
constexpr std::size_t kTokenBytesMax = 1'024;
/// Six hours: the longest that the service allows.
constexpr char kTokenSeconds[] = "21600";

/// A token goes into a header, where a line end would begin another one.
bool is_token(std::string_view text) {
  return !text.empty() && text.size() <= kTokenBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

/// The text of a member; none where the answer is no object, or it has no such text.
std::optional<std::string> member(const nlohmann::json& answer, const char* name) {
  if (!answer.is_object()) {
    return {};
  }
  const auto found = answer.find(name);
  return found != answer.end() && found->is_string() ? std::optional(found->get<std::string>())
                                                     : std::nullopt;
}

}  // namespace

HttpCall AwsMetadata::next() const {
  DDP_CHECK((step_ == Step::token) == token_.empty(), "all but the first question needs a token");
  switch (step_) {
    case Step::token:
      return {
          "PUT", "/latest/api/token", {{"X-aws-ec2-metadata-token-ttl-seconds", kTokenSeconds}}};
    case Step::action:
      return {
          "GET", "/latest/meta-data/spot/instance-action", {{"X-aws-ec2-metadata-token", token_}}};
    case Step::rebalance:
      break;
  }
  return {"GET",
          "/latest/meta-data/events/recommendations/rebalance",
          {{"X-aws-ec2-metadata-token", token_}}};
}

/// A token that is refused while it is new is no matter of age: it is not renewed without a pause.
Heard AwsMetadata::hear(const HttpReply& answer) {
  if (step_ == Step::token) {
    return hear_token(answer);
  }
  if (answer.status == 401) {
    const std::string complaint = is_fresh_ ? unexpected(next(), answer) : "";
    token_.clear();
    step_ = Step::token;
    return {.complaint = complaint, .pause = is_fresh_ ? kPause : std::chrono::milliseconds(0)};
  }
  // Any other answer shows that the token counts, and so a later 401 is one of age.
  is_fresh_ = false;
  return step_ == Step::action ? hear_action(answer) : hear_rebalance(answer);
}

/// 403 means that the service is switched off for this instance, and 404 that it is no instance.
Heard AwsMetadata::hear_token(const HttpReply& answer) {
  DDP_CHECK(token_.empty(), "a token that is good is not asked for");
  if (answer.status != 200 || !is_token(answer.body)) {
    return {.complaint = unexpected(next(), answer), .pause = kPause};
  }
  token_ = answer.body;
  is_fresh_ = true;
  step_ = Step::action;
  return {};
}

Heard AwsMetadata::hear_action(const HttpReply& answer) {
  // The guide's way to say that nobody interrupts this instance, or that it is no spot instance.
  if (answer.status == 404) {
    if (++polls_ >= kPollsPerRebalance) {
      step_ = Step::rebalance;
      return {};
    }
    return {.pause = kPause};
  }
  const auto json = nlohmann::json::parse(answer.body, nullptr, false);
  const auto action = member(json, "action");
  if (answer.status != 200 || !action) {
    return {.complaint = unexpected(next(), answer), .pause = kPause};
  }
  // Without a time it is a notice as well: what counts is that the instance goes.
  const auto time = member(json, "time");
  return {.notice = "aws: " + quoted_from(*action) + " of the spot instance" +
                    (time ? " at " + quoted_from(*time) : ""),
          .pause = kPause};
}

/// Whatever the answer is, the interruption notice is what is asked for next.
Heard AwsMetadata::hear_rebalance(const HttpReply& answer) {
  const HttpCall asked = next();
  polls_ = 0;
  step_ = Step::action;
  if (answer.status == 404) {
    return {.pause = kPause};
  }
  const auto time = member(nlohmann::json::parse(answer.body, nullptr, false), "noticeTime");
  if (answer.status != 200 || !time) {
    return {.complaint = unexpected(asked, answer), .pause = kPause};
  }
  return {.remark = "aws: since " + quoted_from(*time) +
                    " the spot instance is at an elevated risk of interruption; the job goes on",
          .pause = kPause};
}

}  // namespace ddprun
