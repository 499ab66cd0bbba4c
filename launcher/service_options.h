// ServiceOptions: what a command line must not say where a service decides who coordinates: options
// that nothing would read. An option that is ignored without a word costs people hours.
#pragma once

#include <string>

#include "launcher/options.h"
#include "launcher/rdzv_conf.h"
#include "rendezvous/base/result.h"

namespace ddprun {

/// With the etcd or kubernetes backend. `where` names --rdzv-conf.
Result<void> check_service_options(const Options& options, const RdzvConf& conf,
                                   const std::string& where);

}  // namespace ddprun
