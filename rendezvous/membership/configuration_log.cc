#include "rendezvous/membership/configuration_log.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {

bool ConfigurationLog::is_own(ConfigurationNumber configuration) const {
  const ConfigurationNumber own =
      make_configuration(term_of(configuration), self_, count_of(configuration));
  return configuration == own && own_terms_.contains(term_of(configuration));
}

ConfigurationNumber ConfigurationLog::propose(Term term) {
  newest_ = next_configuration(newest_, term, self_);
  DDP_CHECK(maker_of(newest_) == maker_of(make_configuration(term, self_, 1)),
            "this coordinator made it");
  own_terms_.insert(term);
  return newest_;
}

void ConfigurationLog::adopt(ConfigurationNumber configuration) {
  newest_ = std::max(newest_, configuration);
  settle(configuration);
}

}  // namespace ddprun
