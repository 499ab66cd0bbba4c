#include "rendezvous/consensus/lease_name.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "rendezvous/base/dns_label.h"

namespace ddprun {
namespace {

/// A DNS subdomain, as Kubernetes wants it (RFC 1123).
bool is_subdomain(const std::string& name) {
  const std::size_t dot = name.find('.');
  return name.size() <= 253 && (dot == std::string::npos || is_subdomain(name.substr(dot + 1))) &&
         !name.empty() && is_lower_alphanumeric(name.front()) &&
         is_lower_alphanumeric(name[std::min(dot, name.size()) - 1]) &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == std::string::npos;
}

}  // namespace

TEST_CASE("A job that is named as Kubernetes names things has a Lease of that name") {
  CHECK(lease_name("run7") == "ddprun-run7");
  CHECK(lease_name("a-b") == "ddprun-a-b");
  CHECK(lease_name("123456.0").starts_with("ddprun-123456-0."));
}

TEST_CASE("No two jobs share a Lease, and each name is one that Kubernetes takes") {
  std::set<std::string> names;
  const std::string ids[] = {"run",   "Run",   "run.",       "run-", "-run", "run 7", "run-7",
                             "run_7", "run.7", "r\xc3\xbcn", "\xff", "...",  "",      "\n"};
  std::size_t many = 0;
  for (const std::string& id : ids) {
    if (!id.empty()) {
      names.insert(lease_name(id));
      ++many;
    }
  }
  for (const std::size_t size : {62, 63, 64, 200}) {
    names.insert(lease_name(std::string(size, 'a')));
    names.insert(lease_name(std::string(size - 1, 'a') + "-"));
    many += 2;
  }
  // What another id was turned into is an id, too.
  names.insert(lease_name(lease_name("Run").substr(7)));
  CHECK(names.size() == many + 1);
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(is_subdomain(name));
  }
}

}  // namespace ddprun
