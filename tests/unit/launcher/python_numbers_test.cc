#include "launcher/python_numbers.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace ddprun;

TEST_CASE("a whole number is read as Python's int() reads it", "[launcher]") {
  CHECK(read_int("0") == 0);
  CHECK(read_int("-7") == -7);
  CHECK(read_int("+7") == 7);
  CHECK(read_int(" 12\t") == 12);
  CHECK(read_int("010") == 10);  // not eight
  CHECK(read_int("1_000") == 1000);
  CHECK(read_int("2147483647") == 2147483647);
  for (const char* bad : {"", " ", "x", "1x", "0x10", "1.0", "1 2", "--1", "+-1", "_1", "1_",
                          "1__0", "2147483648", "-", "+"}) {
    INFO(bad);
    CHECK_FALSE(read_int(bad).has_value());
  }
}

TEST_CASE("a number with a fraction is read as Python's float() reads it", "[launcher]") {
  CHECK(read_float("0.5") == 0.5);
  CHECK(read_float("-1e-3") == -0.001);
  CHECK(read_float("+2") == 2.0);
  CHECK(read_float(" .25 ") == 0.25);
  CHECK(std::isinf(read_float("inf").value()));
  CHECK(read_float("-1e999") == -INFINITY);
  CHECK(read_float("1e-999") == 0.0);
  for (const char* bad : {"", "x", "1.2.3", "1,5", "0x1p3", "5s"}) {
    INFO(bad);
    CHECK_FALSE(read_float(bad).has_value());
  }
}
