// ToldRecently: which lines people have read in the last minute: what stays wrong for long is told
// once a minute. Pure.
#pragma once

#include <map>
#include <string>

#include "rendezvous/membership/event.h"

namespace ddprun {

class ToldRecently {
 public:
  /// Whether to tell it now; if so it counts as told. `what` names it.
  bool tells(Instant now, const std::string& what);

 private:
  std::map<std::string, Instant> told_;  ///< kToldMax at most
};

}  // namespace ddprun
