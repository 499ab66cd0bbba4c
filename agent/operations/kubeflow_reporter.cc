#include "agent/operations/kubeflow_reporter.h"

#include <spdlog/logger.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <string_view>
#include <utility>

#include "agent/operations/kubeflow_status.h"
#include "rendezvous/base/file_text.h"
#include "rendezvous/base/text.h"
#include "rendezvous/http/http_client.h"

namespace ddprun {
namespace {

/// What its guide asks of clients.
constexpr std::chrono::seconds kPause{5};
/// Of an answer that is none of its own, for a sentence.
constexpr std::size_t kQuotedBytesMax = 200;

constexpr char kUrl[] = "KUBEFLOW_TRAINER_SERVER_URL";
constexpr char kAuthorities[] = "KUBEFLOW_TRAINER_SERVER_CA_CERT";
constexpr char kToken[] = "KUBEFLOW_TRAINER_SERVER_TOKEN";

/// Empty where it is not set.
std::string value_of(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& variable : environment) {
    const std::size_t equals = variable.find('=');
    if (equals != std::string::npos && std::string_view(variable).substr(0, equals) == name) {
      return variable.substr(equals + 1);
    }
  }
  return {};
}

}  // namespace

/// Handlers hold plain pointers to it: it is destroyed after its loop has stopped, as the agent's
/// other parts are.
struct KubeflowReporter::Impl {
  Impl(boost::asio::io_context& io, StatusUrl the_url, std::shared_ptr<const TlsContext> tls,
       std::string the_token_path, std::function<JobSnapshot()> the_snapshot,
       std::shared_ptr<spdlog::logger> the_log)
      : url(std::move(the_url)),
        token_path(std::move(the_token_path)),
        snapshot(std::move(the_snapshot)),
        log(std::move(the_log)),
        client(io, {url.server, std::move(tls)}),
        timer(io) {}

  /// From the answer on, so that nothing piles up at a server that is slow.
  void report_later() {
    timer.expires_after(kPause);
    timer.async_wait([this](boost::system::error_code failed) {
      if (!failed) {
        report();
      }
    });
  }

  /// Every agent looks, since which one runs rank 0 changes from attempt to attempt.
  void report() {
    auto status = kubeflow_status(snapshot());
    if (!status) {
      return report_later();
    }
    // Read each time: Kubernetes renews it within the hour.
    const auto token = read_named_file(token_path);
    if (!token) {
      complain(std::string(kToken) + " names " + token_path + ", which cannot be read");
      return report_later();
    }
    HttpCall call{"POST", url.path, {{"Content-Type", "application/json"}}, std::move(*status)};
    call.headers.emplace_back("Authorization", "Bearer " + printable(std::string(trimmed(*token))));
    client.ask(std::move(call), [this](const Result<HttpReply>& reply) {
      if (!reply) {
        complain(reply.error().sentence());
      } else if (reply->status != 200) {
        complain("it answers " + std::to_string(reply->status) + " '" +
                 printable(reply->body.substr(0, kQuotedBytesMax)) + "'");
      }
      report_later();
    });
  }

  /// Once: it may be away for as long as the job runs.
  void complain(const std::string& why) {
    if (!std::exchange(has_complained, true)) {
      log->warn(
          "Kubeflow's status server: {}; the job goes on, and the server is told every {} s again",
          why, kPause.count());
    }
  }

  StatusUrl url;
  std::string token_path;
  std::function<JobSnapshot()> snapshot;
  std::shared_ptr<spdlog::logger> log;
  HttpClient client;
  boost::asio::steady_timer timer;
  bool has_complained = false;
};

std::unique_ptr<KubeflowReporter> KubeflowReporter::open(
    boost::asio::io_context& io, const std::vector<std::string>& environment,
    std::function<JobSnapshot()> snapshot, std::shared_ptr<spdlog::logger> log) {
  // Kubeflow sets all three or none; a person may set some by hand, to try it out.
  const std::string text = value_of(environment, kUrl);
  // Without a token it would refuse all that it is told.
  const std::string token_path = value_of(environment, kToken);
  if (text.empty() || token_path.empty()) {
    return nullptr;
  }
  auto url = parse_status_url(text);
  auto tls = url ? TlsContext::make({.ca = value_of(environment, kAuthorities)})
                 : Result<std::shared_ptr<const TlsContext>>(url.error());
  if (!tls) {
    log->warn("Kubeflow's status server ({}) is not told of this job: {}", kUrl,
              printable(tls.error().sentence()));
    return nullptr;
  }
  auto impl = std::make_unique<Impl>(io, std::move(*url), std::move(*tls), token_path,
                                     std::move(snapshot), std::move(log));
  impl->report_later();
  return std::unique_ptr<KubeflowReporter>(new KubeflowReporter(std::move(impl)));
}

KubeflowReporter::KubeflowReporter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

KubeflowReporter::~KubeflowReporter() = default;

}  // namespace ddprun
