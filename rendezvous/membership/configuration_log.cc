#include "rendezvous/membership/configuration_log.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {

/// A number carries 16 bits of its maker's 64, so those of two makers may be equal. That is why the
/// terms count, too, in which this coordinator has proposed.
bool ConfigurationLog::is_own(ConfigurationNumber configuration) const {
  const ConfigurationNumber own =
      make_configuration(term_of(configuration), self_, count_of(configuration));
  return configuration == own && own_terms_.contains(term_of(configuration));
}

/// Within a term the count rises; a new term begins at 1, above all numbers of earlier terms.
ConfigurationNumber ConfigurationLog::propose(Term term) {
  newest_ = next_configuration(newest_, term, self_);
  DDP_CHECK(maker_of(newest_) == maker_of(make_configuration(term, self_, 1)),
            "this coordinator made it");
  own_terms_.insert(term);
  DDP_CHECK(is_own(newest_), "what this coordinator proposed is its own");
  return newest_;
}

void ConfigurationLog::adopt(ConfigurationNumber configuration) {
  newest_ = std::max(newest_, configuration);
  settle(configuration);
  DDP_CHECK(knows(configuration), "what was adopted is known");
}

}  // namespace ddprun
