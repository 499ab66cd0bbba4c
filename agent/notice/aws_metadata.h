// AwsMetadata: notices of Amazon EC2's instance metadata service (IMDSv2). Source: EC2 User Guide,
// "Spot Instance interruption notices", "EC2 instance rebalance recommendations" and "Use the
// Instance Metadata Service to access instance metadata". Pure.
#pragma once

#include <cstdint>

#include "agent/notice/metadata_service.h"

namespace ddprun {

/// A session token comes first, and is renewed when the service says that it has expired (401).
/// Then the interruption notice is asked for every five seconds, as the guide recommends; 404 means
/// that there is none. Once a minute the rebalance recommendation is asked for, which tells of a
/// risk and may never be followed by an interruption: it is a remark, no notice.
class AwsMetadata final : public MetadataService {
 public:
  [[nodiscard]] HttpCall next() const override;
  [[nodiscard]] Heard hear(const HttpReply& answer) override;

 private:
  enum class Step : std::uint8_t { token, action, rebalance };

  [[nodiscard]] Heard hear_token(const HttpReply& answer);
  [[nodiscard]] Heard hear_action(const HttpReply& answer);
  [[nodiscard]] Heard hear_rebalance(const HttpReply& answer);

  Step step_ = Step::token;
  std::string token_;
  bool is_fresh_ = false;  ///< nothing was answered to the token yet
  int polls_ = 0;          ///< since the last question about rebalance
};

}  // namespace ddprun
