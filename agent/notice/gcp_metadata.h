// GcpMetadata: notices of Google Compute Engine's metadata server. Source: Compute Engine, "View
// and query VM metadata" (wait_for_change, last_etag, timeout_sec), "Preemptible VM instances"
// (instance/preempted) and "Query metadata server for maintenance event notices". Pure.
#pragma once

#include <cstdint>

#include "agent/notice/metadata_service.h"

namespace ddprun {

/// The first answer has the value as it is, and its ETag. From then on the server answers when the
/// value is another, so nothing is polled and the notice comes at once.
class GcpMetadata final : public MetadataService {
 public:
  enum class Key : std::uint8_t {
    preempted,          ///< TRUE: the VM goes within 30 seconds
    maintenance_event,  ///< TERMINATE_ON_HOST_MAINTENANCE: in an hour, as VMs with GPUs do
  };
  explicit GcpMetadata(Key key) : key_(key) {}

  [[nodiscard]] HttpCall next() const override;
  [[nodiscard]] Heard hear(const HttpReply& answer) override;

 private:
  const Key key_;
  std::string etag_;  ///< of the last answer; empty: none came yet
};

}  // namespace ddprun
