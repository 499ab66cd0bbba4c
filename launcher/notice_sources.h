// Notice sources: the small language of --preempt-notice, and where the clouds' metadata services
// are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/notice/notice_source.h"
#include "launcher/options.h"
#include "rendezvous/base/result.h"

namespace ddprun {

/// "aws,gcp,azure,file:PATH": each once, in any order; a path cannot have a comma. The services are
/// at 169.254.169.254 (Google's name for its own, metadata.google.internal, means that address,
/// too, and needs a name service that answers), or where a variable says:
/// AWS_EC2_METADATA_SERVICE_ENDPOINT, a URL, as for AWS's programs; GCE_METADATA_HOST, a host with
/// a port maybe, as for Google's; DDPRUN_AZURE_METADATA_HOST, the same. `where` names the option in
/// messages.
Result<std::vector<NoticeSource>> parse_notice_sources(std::string_view text,
                                                       const std::string& where,
                                                       const Environment& environment);

}  // namespace ddprun
