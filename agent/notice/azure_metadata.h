// AzureMetadata: notices of Azure's instance metadata service. Source: Azure Virtual Machines,
// "Scheduled Events for Linux VMs" and "Azure Instance Metadata Service". Pure.
#pragma once

#include <cstdint>

#include "agent/notice/metadata_service.h"

namespace ddprun {

/// The name of this VM comes first, since the events of a whole scale set are told to each of its
/// VMs. Then the events are asked for once a second, as the page recommends: a spot VM has 30
/// seconds. The first such question switches the service on, which may take two minutes.
///
/// Preempt, Terminate, Reboot and Redeploy end the processes of the VM: they are notices. Freeze
/// stops it for some seconds and keeps its memory: a remark. No event is acknowledged: that would
/// let Azure begin at once, while the ranks of all nodes still save.
class AzureMetadata final : public MetadataService {
 public:
  [[nodiscard]] HttpCall next() const override;
  [[nodiscard]] Heard hear(const HttpReply& answer) override;

 private:
  std::string name_;         ///< of this VM; empty: it is asked for
  bool is_enabled_ = false;  ///< the events were told once
};

}  // namespace ddprun
