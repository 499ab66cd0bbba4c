#include "launcher/service_options.h"

#include <string_view>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// The first key of --rdzv-conf that only TLS would read; null: there is none.
const char* key_of_tls(const RdzvConf& conf) {
  const std::pair<const std::string*, const char*> keys[] = {
      {&conf.certificates.ca, "cacert="},
      {&conf.certificates.certificate, "cert="},
      {&conf.certificates.key, "key="},
      {&conf.token_file, "token_file="},  // a token is a secret, so it is not sent in plain text
  };
  for (const auto& [value, key] : keys) {
    if (!value->empty()) {
      return key;
    }
  }
  return nullptr;
}

}  // namespace

Result<void> check_service_options(const Options& options, const RdzvConf& conf,
                                   const std::string& where) {
  DDP_CHECK(options.rdzv_backend.has_value(), "a service is chosen by its name");
  // Operators set PET_MASTER_ADDR in each of their pods, whatever the backend is.
  for (const char* const name : {"master-addr", "master-port"}) {
    if (is_on_command_line(options, name)) {
      return Error{"with --rdzv-backend " + *options.rdzv_backend +
                       " the service decides where the nodes meet, so this would be ignored",
                   origin(options, name), "leave it out, or give --rdzv-backend static"};
    }
  }
  // For etcd plain text is the default, which has a sentence of its own.
  const char* const key = conf.https == false ? key_of_tls(conf) : nullptr;
  if (key != nullptr) {
    return Error{"protocol=http is plain text, so " + std::string(key) + " would be ignored", where,
                 "write protocol=https, or leave out " + std::string(key)};
  }
  return {};
}

}  // namespace ddprun
