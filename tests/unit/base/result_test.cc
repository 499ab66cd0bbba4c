#include "rendezvous/base/result.h"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "rendezvous/base/fd.h"

using namespace ddprun;

TEST_CASE("An error is one sentence of where, what and what to do") {
  CHECK(Error{"it is taken", "port 1", "choose another"}.sentence() ==
        "port 1: it is taken; choose another");
  CHECK(Error{"it is taken", "", ""}.sentence() == "it is taken");
  CHECK(errno_error(ENOENT, "cannot open", "/x").sentence() ==
        "/x: cannot open: No such file or directory");
}

TEST_CASE("A result holds a value or an error, also when the value is a text") {
  const Result<std::string> good = std::string("text");
  const Result<std::string> bad = Error{"what", "where", ""};
  CHECK(good.has_value());
  CHECK(*good == "text");
  REQUIRE(bad.has_error());
  CHECK(bad.error().where == "where");
}

TEST_CASE("A descriptor is closed once, by its last owner") {
  int number = -1;
  {
    Fd a(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    number = a.get();
    REQUIRE(number >= 0);
    Fd b = std::move(a);
    CHECK_FALSE(a);  // NOLINT(bugprone-use-after-move): what a move leaves is defined
    CHECK(b.get() == number);
    CHECK(::fcntl(number, F_GETFD) >= 0);
    Fd other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const int second = other.get();
    other = std::move(b);
    CHECK(other.get() == number);
    CHECK(::fcntl(second, F_GETFD) == -1);
  }
  CHECK(::fcntl(number, F_GETFD) == -1);
}

TEST_CASE("A released descriptor stays open") {
  Fd a(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd b(a.release());
  CHECK_FALSE(a);
  a.reset();
  CHECK(::fcntl(b.get(), F_GETFD) >= 0);
}
