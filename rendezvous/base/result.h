// Result<T>: a value, or the Error that explains to a person why there is none. Used all over the
// control plane, where a lost peer is a normal event and not an exception.
//
// A thin cover over boost::system::result (g++ 12 has no std::expected in C++20): to be swapped
// for the standard type later, in this file alone.
#pragma once

#include <boost/system/result.hpp>
#include <cstring>
#include <string>
#include <utility>

namespace ddprun {

/// One failure as a person should read it. `what` is a clause without a full stop ("port 29400 is
/// taken by another program"), `where` names the thing concerned (an address, a path, an option;
/// may be empty), `todo` says what the reader can do (may be empty, when nothing can be done).
struct Error {
  /// All three are named at each place: a failure without a thought of where and what to do is
  /// rare. (And Error must not be constructible from one string, or Result<std::string> is
  /// ambiguous.)
  Error(std::string what_was_wrong, std::string where_it_was, std::string what_to_do)
      : what(std::move(what_was_wrong)),
        where(std::move(where_it_was)),
        todo(std::move(what_to_do)) {}
  /// Empty; boost::system::result's error() wants it for a result that holds a value.
  Error() = default;

  std::string what;
  std::string where;
  std::string todo;

  /// The one sentence: "where: what; what to do".
  [[nodiscard]] std::string sentence() const {
    std::string text;
    if (!where.empty()) {
      text += where + ": ";
    }
    text += what;
    if (!todo.empty()) {
      text += "; " + todo;
    }
    return text;
  }
};

/// For logs and test reports.
template <class Stream>
Stream& operator<<(Stream& stream, const Error& error) {
  stream << error.sentence();
  return stream;
}

/// `value()` on an Error is a bug of the caller; boost asks for this hook by name.
[[noreturn]] inline void throw_exception_from_error(const Error& error,
                                                    const boost::source_location& at) {
  std::fprintf(stderr, "ddprun bug: %s:%u: value() of a failed Result: %s\n", at.file_name(),
               static_cast<unsigned>(at.line()), error.sentence().c_str());
  std::abort();
}

/// `Explained`: an Error, or a type that has one and more.
template <class T, class Explained = Error>
using Result = boost::system::result<T, Explained>;

/// An Error from errno (taken at the call): `what` becomes "WHAT: No such file or directory".
inline Error errno_error(int errno_value, std::string what, std::string where = {},
                         std::string todo = {}) {
  return Error{std::move(what) + ": " + std::strerror(errno_value), std::move(where),
               std::move(todo)};
}

}  // namespace ddprun
