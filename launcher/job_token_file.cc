#include "launcher/job_token_file.h"

#include <utility>

#include "launcher/list_options.h"
#include "rendezvous/base/file_text.h"

namespace ddprun {
namespace {

/// Shared: every connection's exchange holds it, and none of them changes it.
Result<std::shared_ptr<const JobToken>> shared(Result<JobToken> token) {
  if (!token) {
    return token.error();
  }
  return std::make_shared<const JobToken>(std::move(*token));
}

}  // namespace

// An option that is given with an empty text comes from a shell variable that is not set: a job
// that ran without its token then would be open to all.
Result<std::shared_ptr<const JobToken>> job_token(
    const Options& options, const Environment& environment,
    const std::function<std::optional<std::string>(const std::string&)>& read_file) {
  if (options.job_token_file) {
    const std::string& path = *options.job_token_file;
    const std::string where = origin(options, "job-token-file") + " " + in_quotes(path);
    const auto text = path.empty() ? std::nullopt : read_file(path);
    if (!text) {
      return Error{
          "no job's token can be read there" + (path.empty() ? "" : ": " + why_no_text(path)),
          where, "name a file that has the token, the same on all nodes"};
    }
    return shared(JobToken::from(*text, where));
  }
  if (const char* text = environment(kJobTokenVariable)) {
    return shared(JobToken::from(text, kJobTokenVariable));
  }
  return std::shared_ptr<const JobToken>();
}

}  // namespace ddprun
