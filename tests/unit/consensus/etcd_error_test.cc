#include "rendezvous/consensus/etcd_error.h"

#include <catch2/catch.hpp>
#include <string>

namespace ddprun {
namespace {

const Endpoint kMember{"e1", 2379};

std::string refusal(const std::string& message) {
  return etcd_refusal(kMember, message, 7, "ann").sentence();
}

}  // namespace

TEST_CASE("What etcd refuses is told in its own words, with what to do", "[consensus]") {
  CHECK(refusal("etcdserver: permission denied") ==
        "etcd at e1:2379 says: etcdserver: permission denied; let ann read and write keys below "
        "ddprun/");
  CHECK(refusal("etcdserver: authentication failed, invalid user ID or password") ==
        "etcd at e1:2379 says: etcdserver: authentication failed, invalid user ID or password; "
        "correct DDPRUN_ETCD_USER=NAME:PASSWORD, which gave the user ann");
  CHECK(refusal("etcdserver: mvcc: database space exceeded") ==
        "etcd at e1:2379 says: etcdserver: mvcc: database space exceeded; compact and defragment "
        "etcd, then run etcdctl alarm disarm");
  CHECK(refusal("etcdserver: no leader") ==
        "etcd at e1:2379 says: etcdserver: no leader; see whether most of etcd's members run");
  CHECK(refusal("what is this?") == "etcd at e1:2379 says: what is this?; see its log");
  CHECK(refusal("") == "etcd at e1:2379 says: error 7 without a word; see its log");
}

TEST_CASE("A stranger's megabytes and control characters do not reach the terminal",
          "[consensus]") {
  const std::string told = refusal("\x1b[2J" + std::string(1'000'000, 'x'));
  CHECK(told.size() < 500);
  CHECK(told.find('\x1b') == std::string::npos);
}

TEST_CASE("A member that is not asked as it wants to be says what to change", "[consensus]") {
  const Error refused{"Connection refused", {}, {}};
  const Error closed{"the server closed the connection", {}, {}};
  const Error untrusted{"its certificate is not trusted", {}, "give its authority"};
  CHECK(etcd_unasked(kMember, refused, true).sentence() ==
        "etcd at e1:2379 cannot be asked: Connection refused; see whether etcd runs there "
        "(--rdzv-endpoint)");
  CHECK(etcd_unasked(kMember, closed, true).todo ==
        "if it wants TLS, give --rdzv-conf protocol=https,cacert=FILE");
  CHECK(etcd_unasked(kMember, closed, false).todo == etcd_unasked(kMember, refused, true).todo);
  CHECK(etcd_unasked(kMember, untrusted, false).todo == "give its authority");
  CHECK(etcd_stranger(kMember, 400, "Client sent an HTTP request to an HTTPS server.").sentence() ==
        "etcd at e1:2379 wants TLS; give --rdzv-conf protocol=https,cacert=FILE");
  CHECK(etcd_stranger(kMember, 404, "<html>").sentence() ==
        "etcd at e1:2379 does not speak etcd's protocol (HTTP status 404); name etcd's port for "
        "clients, most often 2379 (--rdzv-endpoint)");
}

}  // namespace ddprun
