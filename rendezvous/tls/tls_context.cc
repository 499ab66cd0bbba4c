#include "rendezvous/tls/tls_context.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/tls/tls_context_impl.h"

namespace ddprun {
namespace {

/// One protocol, "http/1.1", with its length before it (RFC 7301, 3.1): servers that also speak
/// HTTP/2 on this port need not guess.
constexpr std::array<unsigned char, 9> kProtocols{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

/// OpenSSL would ask at the terminal.
int no_passphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) {
  return -1;
}

/// OpenSSL's own words for a file that is not there name its functions, and at a pipe with a name
/// it would wait for somebody to write. (One of a shell, `cacert=<(command)`, has its writer.)
Result<void> check_readable(const std::string& file, const char* what) {
  const Fd opened(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  struct statfs system {};
  if (!opened || ::fstat(opened.get(), &status) != 0 || ::fstatfs(opened.get(), &system) != 0) {
    return errno_error(errno, std::string("cannot read the ") + what, file, "give a file in PEM");
  }
  if (S_ISFIFO(status.st_mode) && system.f_type != PIPEFS_MAGIC) {
    return Error{std::string("is a pipe and no file, so it cannot be the ") + what, file,
                 "give a file in PEM"};
  }
  return {};
}

/// A clock of a file system is as coarse as a tick, or two seconds (FAT); a second change within
/// one tick does not show.
constexpr std::chrono::seconds kSettled{3};

/// None where one is missing, or has changed so lately that it may change again and look the same.
std::optional<TlsFileStates> states_of(const TlsFiles& files) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  TlsFileStates states;
  std::size_t place = 0;
  for (const std::string& file : {files.ca, files.certificate, files.key}) {
    TlsFileState& state = states[place++];
    if (file.empty()) {
      continue;
    }
    struct stat found {};
    if (::stat(file.c_str(), &found) != 0) {
      return std::nullopt;
    }
    state = {found.st_dev, found.st_ino, found.st_size,
             std::chrono::seconds(found.st_ctim.tv_sec) +
                 std::chrono::nanoseconds(found.st_ctim.tv_nsec)};
    if (state.changed + kSettled > now) {
      return std::nullopt;
    }
  }
  return states;
}

/// Agents are of one version, so the newest protocol is enough: it hides certificates, and renews
/// no handshake. A ticket would let a side come back without its certificate, so there is none.
void ask_both_sides(const OpenSslLibrary& openssl, SSL_CTX* context) {
  openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr);
  openssl.SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  openssl.SSL_CTX_set_num_tickets(context, 0);
  // Thousands of connections are idle: a record's room is there while one is read.
  openssl.SSL_CTX_ctrl(context, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, nullptr);
}

/// By OpenSSL's reasons, of 3 and of 1.1.1, for what people mix up.
const char* remedy_for(const std::string& reason) {
  const auto says = [&reason](const char* words) {
    return reason.find(words) != std::string::npos;
  };
  // The second: of a key of another kind, such as RSA for an elliptic curve.
  if (says("key values mismatch") || says("no certificate assigned")) {
    return "give the key of that certificate";
  }
  // OpenSSL's security level: "ee key too small", "ca md too weak".
  if (says("too small") || says("too weak")) {
    return "give a certificate with a longer key or a digest of today, such as SHA-256";
  }
  return says("interrupted or cancelled") || says("password") ? "give a key without a passphrase"
                                                              : "give a file in PEM";
}

}  // namespace

Result<void> TlsContext::Impl::use_files() {
  // What is read from a file, by a function that gives 1 if it could use it.
  const auto use = [this](const std::string& file, const char* what, auto take) -> Result<void> {
    if (const auto readable = check_readable(file, what); !readable) {
      return readable.error();
    }
    openssl.ERR_clear_error();
    if (take(file.c_str()) != 1) {
      const std::string reason = openssl_reason(openssl);
      return Error{std::string("is no ") + what + " that can be used: " + reason, file,
                   remedy_for(reason)};
    }
    return {};
  };
  Result<void> used;
  if (files.ca.empty()) {
    openssl.SSL_CTX_set_default_verify_paths(context.get());
  } else {
    used = use(files.ca, "file of authorities", [&](const char* file) {
      return openssl.SSL_CTX_load_verify_locations(context.get(), file, nullptr);
    });
  }
  if (used && !files.certificate.empty()) {
    // With those between it and its authority: servers often know the root alone.
    used = use(files.certificate, "certificate", [&](const char* file) {
      return openssl.SSL_CTX_use_certificate_chain_file(context.get(), file);
    });
    if (used) {
      used = use(files.key, "private key without a passphrase", [&](const char* file) {
        const int taken =
            openssl.SSL_CTX_use_PrivateKey_file(context.get(), file, SSL_FILETYPE_PEM);
        return taken == 1 ? openssl.SSL_CTX_check_private_key(context.get()) : taken;
      });
    }
  }
  return used;
}

TlsContext::TlsContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

TlsContext::~TlsContext() = default;

const TlsFiles& TlsContext::files() const {
  return impl_->files;
}

Result<std::shared_ptr<const TlsContext>> TlsContext::make(const TlsFiles& files) {
  return of(Kind::client, files);
}

Result<std::shared_ptr<const TlsContext>> TlsContext::make_mutual(const TlsFiles& files) {
  DDP_CHECK(!files.ca.empty() && !files.certificate.empty() && !files.key.empty(),
            "an agent trusts the authority of its job alone, and shows a certificate");
  return of(Kind::mutual, files);
}

Result<std::shared_ptr<const TlsContext>> TlsContext::of(Kind kind, const TlsFiles& files) {
  const auto library = openssl_library();
  if (!library) {
    return library.error();
  }
  const OpenSslLibrary& openssl = **library;
  const SSL_METHOD* const method =
      kind == Kind::mutual ? openssl.TLS_method() : openssl.TLS_client_method();
  // Looked at before they are read: what is written meanwhile shows the next time.
  auto impl = std::unique_ptr<Impl>(new Impl{
      kind, files, states_of(files), openssl, {openssl.SSL_CTX_new(method), openssl.SSL_CTX_free}});
  SSL_CTX* const context = impl->context.get();
  if (context == nullptr) {
    return Error{"OpenSSL cannot be used: " + openssl_reason(openssl), {}, {}};
  }
  if (kind == Kind::mutual) {
    ask_both_sides(openssl, context);
  } else {
    // 1.0 and 1.1 are deprecated (RFC 8996), and some distributions still build them in.
    openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, nullptr);
    openssl.SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    openssl.SSL_CTX_set_alpn_protos(context, kProtocols.data(), kProtocols.size());
  }
  openssl.SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  if (const auto used = impl->use_files(); !used) {
    return used.error();
  }
  return std::shared_ptr<const TlsContext>(new TlsContext(std::move(impl)));
}

/// All files or none: a certificate goes with its key alone, and who replaces one of them is often
/// in the midst of replacing the other. So a new authority counts once the rest is there, too.
/// What is no plain file was read to its end at the start, and has nothing more to say.
Result<std::shared_ptr<const TlsContext>> TlsContext::renewed(
    std::shared_ptr<const TlsContext> context) {
  DDP_CHECK(context != nullptr, "there is a context to renew");
  const TlsFiles& files = context->impl_->files;
  if (files == TlsFiles{}) {
    return context;  // the machine's authorities take 50 ms to read
  }
  if (context->impl_->read_as && context->impl_->read_as == states_of(files)) {
    return context;
  }
  for (const std::string& file : {files.ca, files.certificate, files.key}) {
    std::error_code unknown;
    if (!file.empty() && std::filesystem::exists(file, unknown) &&
        !std::filesystem::is_regular_file(file, unknown)) {
      return Error{"is no plain file, so it was read at the start alone", file, {}};
    }
  }
  return of(context->impl_->kind, files);
}

}  // namespace ddprun
