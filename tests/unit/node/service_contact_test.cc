#include "rendezvous/node/service_contact.h"

#include <catch2/catch.hpp>
#include <string>
#include <variant>

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

std::string warning_in(const ServiceVoterActions& actions) {
  for (const auto& action : actions) {
    if (const auto* line = std::get_if<LogLine>(&action)) {
      return line->text;
    }
  }
  return {};
}

}  // namespace

TEST_CASE("A service that answers and does not renew the lease is told before the lease is over") {
  ServiceContact contact(3s, NodeId{1}, "etcd");
  CHECK(warning_in(contact.look(10s, {25s, {}})).empty());
  CHECK(warning_in(contact.look(11s, {26s, {}})).empty());
  CHECK(warning_in(contact.look(17s, {26s, {}})).empty());
  CHECK(
      warning_in(contact.look(18s, {26s, {}})) ==
      "etcd answers, but does not renew the lease of this coordinator; the job goes on without it "
      "for up to 8 s");
  CHECK(warning_in(contact.look(19s, {26s, {}})).empty());  // once
  CHECK(warning_in(contact.look(20s, {35s, {}})) == "etcd answers again");
}
