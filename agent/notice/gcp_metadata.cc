#include "agent/notice/gcp_metadata.h"

#include <algorithm>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// A server that answers at once, though nothing has changed, is not asked without end.
constexpr std::chrono::milliseconds kPauseMin{1'000};
constexpr std::chrono::milliseconds kPauseAfterNonsense{5'000};
constexpr std::chrono::seconds kWait{300};
/// Beside the wait itself.
constexpr std::chrono::seconds kPatience{10};
constexpr std::size_t kEtagBytesMax = 64;

/// It goes into a query. The server's are hexadecimal.
bool is_plain_etag(std::string_view text) {
  return !text.empty() && text.size() <= kEtagBytesMax &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_';
         });
}

}  // namespace

/// What changed between two questions is answered at once, since the ETag is an old one by then.
HttpCall GcpMetadata::next() const {
  std::string target = "/computeMetadata/v1/instance/";
  target += key_ == Key::preempted ? "preempted" : "maintenance-event";
  if (etag_.empty()) {
    return {"GET", target, {{"Metadata-Flavor", "Google"}}};
  }
  target +=
      "?wait_for_change=true&timeout_sec=" + std::to_string(kWait.count()) + "&last_etag=" + etag_;
  return {"GET", target, {{"Metadata-Flavor", "Google"}}, {}, kWait + kPatience};
}

Heard GcpMetadata::hear(const HttpReply& answer) {
  // By the guide this header tells the metadata server from whatever else has its name.
  if (answer.header("Metadata-Flavor") != "Google") {
    return {.complaint = "its answer has no header 'Metadata-Flavor: Google'",
            .pause = kPauseAfterNonsense};
  }
  const std::string_view value = trimmed(answer.body);
  const bool is_known = key_ == Key::preempted
                            ? value == "TRUE" || value == "FALSE"
                            : value == "NONE" || value.ends_with("_ON_HOST_MAINTENANCE");
  if (answer.status != 200 || !is_known) {
    return {.complaint = unexpected(next(), answer), .pause = kPauseAfterNonsense};
  }
  // It never turns FALSE again: the VM is stopped next.
  if (value == "TRUE") {
    return {.notice = "gcp: the VM is preempted within 30 seconds", .pause = kPauseMin};
  }
  // Older servers say SHUTDOWN. A live migration (MIGRATE) leaves the processes as they are.
  if (value.starts_with("TERMINATE") || value.starts_with("SHUTDOWN")) {
    return {.notice = "gcp: " + quoted_from(value), .pause = kPauseMin};
  }
  const bool had_etag = !etag_.empty();
  const std::string_view etag = answer.header("ETag");
  etag_ = is_plain_etag(etag) ? etag : "";
  DDP_CHECK(etag_.size() <= kEtagBytesMax, "a query has a bounded size");
  // Without an ETag there is no waiting, only asking again.
  const bool waits = had_etag || !etag_.empty();
  return {.remark = value.starts_with("MIGRATE")
                        ? "gcp: the VM migrates to another host; the job goes on"
                        : "",
          .pause = waits ? kPauseMin : kPauseAfterNonsense};
}

}  // namespace ddprun
