// Lets CHECK(result) show a failed Result's sentence, whatever its value's type is.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "rendezvous/base/result.h"

namespace Catch {

template <class T>
struct StringMaker<boost::system::result<T, ddprun::Error>> {
  static std::string convert(const boost::system::result<T, ddprun::Error>& result) {
    return result ? "a value" : "the error \"" + result.error().sentence() + "\"";
  }
};

}  // namespace Catch
