// What is wrong with a member of etcd that does not do what it was asked. Pure.
#pragma once

#include <string>
#include <string_view>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/result.h"

namespace ddprun {

/// With tokens that say which users and roles there were (JWT), whoever changes these ends the
/// tokens of all (etcdserver/api/v3rpc/rpctypes, ErrGRPCAuthOldRevision); no code is its own.
inline constexpr char kEtcdOldRevision[] = "revision of auth store is old";
/// Of authenticate() where authentication is off, and of a question without a token where it is on
/// again (the same file, ErrGRPCAuthNotEnabled and ErrGRPCUserEmpty).
inline constexpr char kEtcdNotEnabled[] = "authentication is not enabled";
inline constexpr char kEtcdNobodyAsks[] = "user name is empty";

/// No answer came. `is_plain`: it was asked without TLS.
Error etcd_unasked(const Endpoint& member, const Error& why, bool is_plain);
/// What answered is no etcd, or one that speaks TLS alone.
Error etcd_stranger(const Endpoint& member, int http_status, std::string_view body);
/// It says that it cannot, or will not. `user`: who asked; empty where nobody was named.
Error etcd_refusal(const Endpoint& member, std::string_view message, int code,
                   const std::string& user);
/// It answers, and `what` is not as etcd's protocol has it.
Error etcd_unknown_form(const std::string& what);

}  // namespace ddprun
