// resolve_name: the addresses of a host, by Asio's resolver.
//
// That one asks the C library on a thread of its own, which begins with the first name and ends
// with the io_context. A thread inherits the mask of the one that begins it; if it took signals,
// one that comes while an agent ends could find it: by then the signals' handlers are gone, and the
// main thread alone holds them back.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <csignal>
#include <string>
#include <utility>

namespace ddprun {

/// `handler`: (error_code, tcp::resolver::results_type), as of async_resolve.
template <class Handler>
void resolve_name(boost::asio::ip::tcp::resolver& resolver, const std::string& host,
                  Handler&& handler) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  resolver.async_resolve(host, "", std::forward<Handler>(handler));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace ddprun
