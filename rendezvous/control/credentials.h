// Credentials: by what the agents of a job know each other, at the first bytes of each connection.
#pragma once

#include <memory>

namespace ddprun {

class JobTls;
class JobToken;

/// Null: none is shown, and none asked for.
struct Credentials {
  std::shared_ptr<const JobToken> token = {};  ///< docs/job-token.md
  std::shared_ptr<JobTls> tls = {};            ///< docs/tls.md
  [[nodiscard]] bool any() const { return token || tls; }
};

}  // namespace ddprun
