// Lets CHECK(result) show the sentence of a failed Result or ReadResult, whatever its value's type
// is.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "rendezvous/base/result.h"
#include "worker_runtime/snapshot/snapshot_fault.h"

namespace Catch {

template <class T>
struct StringMaker<boost::system::result<T, ddprun::Error>> {
  static std::string convert(const boost::system::result<T, ddprun::Error>& result) {
    return result ? "a value" : "the error \"" + result.error().sentence() + "\"";
  }
};

template <class T>
struct StringMaker<ddp::ReadResult<T>> {
  static std::string convert(const ddp::ReadResult<T>& result) {
    return result ? "a value" : "the error \"" + result.error().error.sentence() + "\"";
  }
};

}  // namespace Catch
