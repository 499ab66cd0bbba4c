#include "rendezvous/store/store_protocol.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/store/hex.h"

using namespace ddprun::store_protocol;
using ddprun::test::from_hex;
using Status = RequestParser::Status;

TEST_CASE("a first byte of 0 is decided by the magic behind it") {
  Request request;
  RequestParser modern;
  modern.feed(from_hex("00 cef785"));
  CHECK(modern.next(request) == Status::need_more);
  modern.feed(from_hex("3c 0c"));
  CHECK(modern.next(request) == Status::request);
  CHECK(request.operation == Operation::cancel_wait);

  RequestParser legacy;
  legacy.feed(from_hex("00 0100000000000000 61 0100000000000000 62"));
  CHECK(legacy.next(request) == Status::request);
  CHECK(request.operation == Operation::set);
  CHECK(request.key == "a");
  CHECK(request.value == "b");
}

TEST_CASE("the same number means different operations in the two dialects") {
  Request request;
  RequestParser legacy;
  legacy.feed(from_hex("06"));
  CHECK(legacy.next(request) == Status::request);
  CHECK(request.operation == Operation::num_keys);
  RequestParser modern;
  modern.feed(from_hex("00 cef7853c 07"));
  CHECK(modern.next(request) == Status::request);
  CHECK(request.operation == Operation::num_keys);
}

TEST_CASE("a request cut anywhere is not handed out, and is whole once the rest comes") {
  const std::string bytes =
      from_hex("00 cef7853c 02 0100000000000000 6b 0100000000000000 61 0200000000000000 6262");
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    RequestParser parser;
    Request request;
    parser.feed(bytes.substr(0, cut));
    REQUIRE(parser.next(request) == Status::need_more);
    parser.feed(bytes.substr(cut));
    REQUIRE(parser.next(request) == Status::request);
    CHECK(request.operation == Operation::compare_set);
    CHECK(request.value == "a");
    CHECK(request.desired == "bb");
    CHECK(parser.pending() == 0);
  }
}

TEST_CASE("a length that no request has is refused before the bytes come") {
  Request request;
  RequestParser parser;
  parser.feed(from_hex("00 cef7853c 01 ffffffffffffff3f"));
  CHECK(parser.next(request) == Status::malformed);
}
