#include "rendezvous/consensus/etcd_error.h"

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"
#include "rendezvous/base/utf8.h"

namespace ddprun {
namespace {

/// Of an error: etcd's own are a line, a stranger's may be megabytes.
constexpr std::size_t kWordsMax = 400;
constexpr char kAskForTls[] = "give --rdzv-conf protocol=https,cacert=FILE";

/// Of the member, since people have to look into its log.
std::string sentence(const Endpoint& member, const std::string& why) {
  return "etcd at " + to_text(member) + " " + why;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// By etcd's own words (etcdserver/api/v3rpc/rpctypes: ErrGRPCPermissionDenied, ErrGRPCAuthFailed,
/// ErrGRPCUserEmpty, ErrGRPCNoSpace, ErrGRPCNoLeader).
std::string todo_of(std::string_view message, const std::string& user) {
  if (contains(message, "permission denied")) {
    return "let " + printable(user) + " read and write keys below ddprun/";
  }
  if (contains(message, "authentication failed")) {
    return "correct DDPRUN_ETCD_USER=NAME:PASSWORD, which gave the user " + printable(user);
  }
  if (contains(message, kEtcdNobodyAsks)) {
    return "give a user by DDPRUN_ETCD_USER=NAME:PASSWORD";
  }
  if (contains(message, "database space exceeded")) {
    return "compact and defragment etcd, then run etcdctl alarm disarm";
  }
  if (contains(message, "no leader")) {
    return "see whether most of etcd's members run";
  }
  return "see its log";
}

}  // namespace

Error etcd_unasked(const Endpoint& member, const Error& why, bool is_plain) {
  DDP_CHECK(!why.what.empty(), "what was wrong is said");
  std::string todo = why.todo.empty() ? "see whether etcd runs there (--rdzv-endpoint)" : why.todo;
  // Older members close what is no TLS without a word.
  if (is_plain && contains(why.what, "closed the connection")) {
    todo = std::string("if it wants TLS, ") + kAskForTls;
  } else if (contains(why.what, "speaks no TLS")) {
    todo = "leave protocol=https out if it speaks plain text";
  } else if (contains(why.what, "not found")) {
    todo = "correct the name (--rdzv-endpoint)";
  }
  return {sentence(member, "cannot be asked: " + why.what), {}, todo};
}

Error etcd_stranger(const Endpoint& member, int http_status, std::string_view body) {
  // What Go's servers answer to plain text at a port of TLS (net/http's server.go).
  constexpr int kBadRequest = 400;
  if (http_status == kBadRequest && contains(body, "HTTPS server")) {
    return {sentence(member, "wants TLS"), {}, kAskForTls};
  }
  return {sentence(member, "does not speak etcd's protocol (HTTP status " +
                               std::to_string(http_status) + ")"),
          {},
          "name etcd's port for clients, most often 2379 (--rdzv-endpoint)"};
}

Error etcd_refusal(const Endpoint& member, std::string_view message, int code,
                   const std::string& user) {
  if (message.empty()) {
    return {sentence(member, "says: error " + std::to_string(code) + " without a word"),
            {},
            todo_of({}, user)};
  }
  const std::string words = printable(std::string(utf8_prefix(message, kWordsMax)));
  return {sentence(member, "says: " + words), {}, todo_of(message, user)};
}

Error etcd_unknown_form(const std::string& what) {
  DDP_CHECK(!what.empty(), "what was wrong is said");
  return {what, {}, "ddprun needs etcd 3.4 or later"};
}

}  // namespace ddprun
