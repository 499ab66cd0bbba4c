#include "launcher/kubernetes_config.h"

#include <cstdint>

#include "launcher/list_options.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/dns_label.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

// What Kubernetes sets and mounts in each pod.
constexpr char kHostVariable[] = "KUBERNETES_SERVICE_HOST";
constexpr char kPortVariable[] = "KUBERNETES_SERVICE_PORT";
constexpr char kTokenFile[] = "/var/run/secrets/kubernetes.io/serviceaccount/token";
constexpr char kAuthorityFile[] = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
constexpr char kNamespaceFile[] = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

constexpr char kMount[] =
    "let the pod have its service account's token (automountServiceAccountToken: true)";

}  // namespace

/// KUBERNETES_SERVICE_PORT_HTTPS has the same number; client-go reads this one.
Result<Endpoint> kubernetes_server(const Environment& environment, const std::string& where) {
  const char* const host = environment(kHostVariable);
  const char* const port = environment(kPortVariable);
  const bool no_host = host == nullptr || *host == '\0';
  if (no_host || port == nullptr) {
    std::string missing = no_host ? kHostVariable : "";
    if (port == nullptr) {
      missing += std::string(no_host ? " and " : "") + kPortVariable;
    }
    const bool both = no_host && port == nullptr;
    return Error{
        "no API server is known: " + missing +
            (both ? " are not set, as they are in a pod" : " is not set, as it is in a pod"),
        where, "run it in a pod, or give --rdzv-endpoint HOST:PORT"};
  }
  const auto number = parse_number<std::uint16_t>(port);
  if (!number || *number == 0) {
    return Error{in_quotes(port) + " is not a port", kPortVariable,
                 "give the API server as --rdzv-endpoint HOST:PORT"};
  }
  // An IPv6 address has no brackets there, and may have them. It is no name, so no search domain is
  // tried.
  if (!is_host(host)) {
    return Error{in_quotes(host) + " is not a host name or address", kHostVariable,
                 "give the API server as --rdzv-endpoint HOST:PORT"};
  }
  return *parse_endpoint(host, *number);
}

/// A certificate of the client stands for a token; `kubectl proxy` needs neither.
Result<void> speak_to_kubernetes(const RdzvConf& conf, const std::string& where, JobSpec& job) {
  if (!conf.name_space.empty() && !is_dns_label(conf.name_space)) {
    return Error{"namespace='" + printable(conf.name_space) + "' cannot be a namespace", where,
                 "write lower case letters, digits and hyphens, at most 63"};
  }
  job.kubernetes_namespace = conf.name_space;
  if (conf.https.value_or(true)) {
    TlsFiles files = conf.certificates;
    job.kubernetes_token_file = conf.token_file;
    if (job.kubernetes_token_file.empty() && files.certificate.empty()) {
      job.kubernetes_token_file = kTokenFile;
    }
    if (files.ca.empty()) {
      files.ca = kAuthorityFile;
    }
    job.service_certificates = std::move(files);
  }
  return {};
}

/// The token that is read here is dropped: by the time it is used there may be another one.
Result<void> read_service_account(
    const std::function<std::optional<std::string>(const std::string& path)>& read, JobSpec& job) {
  DDP_CHECK(read != nullptr, "there is somebody who reads files");
  if (job.backend != RendezvousBackend::kubernetes) {
    return {};
  }
  if (job.kubernetes_namespace.empty()) {
    const auto text = read(kNamespaceFile);
    job.kubernetes_namespace = text ? std::string(trimmed(*text)) : "";
    if (!is_dns_label(job.kubernetes_namespace)) {
      return Error{text ? "it holds no namespace" : "the namespace of this pod cannot be read",
                   kNamespaceFile, std::string(kMount) + ", or give --rdzv-conf namespace=NAME"};
    }
  }
  const std::string& token = job.kubernetes_token_file;
  if (!token.empty() && trimmed(read(token).value_or("")).empty()) {
    return Error{"there is no token in it that could be read", token,
                 std::string(kMount) +
                     ", name its file as --rdzv-conf token_file=FILE, or ask through kubectl proxy "
                     "(--rdzv-endpoint 127.0.0.1:8001 --rdzv-conf protocol=http)"};
  }
  if (job.service_certificates && !read(job.service_certificates->ca)) {
    return Error{"the authorities that sign the API server's certificate cannot be read",
                 job.service_certificates->ca,
                 std::string(kMount) + ", or name their file as --rdzv-conf cacert=FILE"};
  }
  return {};
}

}  // namespace ddprun
