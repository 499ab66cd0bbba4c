#include "launcher/notice_sources.h"

#include <algorithm>
#include <optional>

#include "launcher/list_options.h"
#include "rendezvous/base/check.h"
#include "rendezvous/contract/environment.h"

namespace ddprun {
namespace {

// The names are those of the clouds' own tools, as people know them.

constexpr int kHttpPort = 80;
constexpr std::string_view kScheme = "http://";
constexpr std::string_view kFile = "file:";

/// The address of all three, on the link of the machine itself (RFC 3927).
constexpr char kUsualHost[] = "169.254.169.254";

/// A cloud by its word, and the variable that moves its service.
struct Cloud {
  std::string_view word;
  NoticeKind kind;
  const char* variable;
  bool is_url;  ///< the variable's value begins with a scheme
};

constexpr Cloud kClouds[] = {{"aws", NoticeKind::aws, env::kAwsMetadataEndpoint, true},
                             {"gcp", NoticeKind::gcp, env::kGceMetadataHost, false},
                             {"azure", NoticeKind::azure, env::kAzureMetadataHost, false}};

Result<Endpoint> server_of(const Cloud& cloud, const Environment& environment) {
  // An empty variable counts as unset, as the clouds' own programs have it.
  const char* const value = environment(cloud.variable);
  if (value == nullptr || *value == '\0') {
    return Endpoint{kUsualHost, kHttpPort};
  }
  std::string_view text = value;
  const std::string where = std::string(cloud.variable) + "=" + in_quotes(text);
  if (cloud.is_url) {
    if (!text.starts_with(kScheme)) {
      return Error{"it is no URL that begins with http://", where,
                   "write for example http://169.254.169.254"};
    }
    text.remove_prefix(kScheme.size());
    text.remove_suffix(text.ends_with('/') ? 1 : 0);
  }
  // A path behind the host would be lost: the services' own paths begin at the root.
  auto server = parse_endpoint(text, kHttpPort);
  if (text.empty() || !server || server->port == 0) {
    return Error{
        "it names no host with a port maybe", where,
        std::string("write for example ") + (cloud.is_url ? "http://" : "") + "169.254.169.254:80"};
  }
  DDP_CHECK(!server->host.empty(), "an endpoint has a host");
  return *server;
}

}  // namespace

Result<std::vector<NoticeSource>> parse_notice_sources(std::string_view text,
                                                       const std::string& where,
                                                       const Environment& environment) {
  std::vector<NoticeSource> sources;
  for (const std::string& word : split_commas(text)) {
    NoticeSource source;
    const auto* const cloud = std::find_if(std::begin(kClouds), std::end(kClouds),
                                           [&](const Cloud& one) { return one.word == word; });
    if (cloud != std::end(kClouds)) {
      source.kind = cloud->kind;
      auto server = server_of(*cloud, environment);
      if (!server) {
        return server.error();
      }
      source.server = std::move(*server);
    } else if (word.starts_with(kFile) && word.size() > kFile.size()) {
      source.path = word.substr(kFile.size());
      // No shell has seen it: nobody would ever make a file of that name.
      if (source.path.starts_with(' ') || source.path.starts_with('~')) {
        return Error{
            in_quotes(word) + " begins its path with a blank or ~, which no shell resolves", where,
            "write for example file:/run/notice"};
      }
    } else {
      return Error{in_quotes(word) + " announces nothing", where,
                   "name aws, gcp, azure, or file: and a path"};
    }
    // Lists of an option add up, and the same service twice would be asked twice.
    if (std::find(sources.begin(), sources.end(), source) == sources.end()) {
      sources.push_back(std::move(source));
    }
  }
  DDP_CHECK(std::all_of(sources.begin(), sources.end(),
                        [](const NoticeSource& one) {
                          return (one.kind == NoticeKind::file) == !one.path.empty();
                        }),
            "a file has a path, and a service has none");
  return sources;
}

}  // namespace ddprun
