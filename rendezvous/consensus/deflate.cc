#include "rendezvous/consensus/deflate.h"

#include <array>
#include <boost/beast/zlib/deflate_stream.hpp>
#include <boost/beast/zlib/inflate_stream.hpp>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

namespace zlib = boost::beast::zlib;

}  // namespace

/// At once: its bound is known, and a state is small beside an agent's memory.
std::string deflated(const std::string& bytes) {
  zlib::deflate_stream stream;
  std::string made(stream.upper_bound(bytes.size()), '\0');
  zlib::z_params all;
  all.next_in = bytes.data();
  all.avail_in = bytes.size();
  all.next_out = made.data();
  all.avail_out = made.size();
  boost::system::error_code said;
  stream.write(all, zlib::Flush::finish, said);
  DDP_CHECK(said == zlib::error::end_of_stream, "what is made fits within its upper bound");
  made.resize(all.total_out);
  return made;
}

/// In pieces: how much it becomes is not known before. Where the last code ends with the last byte,
/// Boost 1.81 tells the end only if there is one byte more.
std::optional<std::string> inflated(const std::string& bytes, std::size_t bytes_max) {
  const std::string input = bytes + '\0';
  zlib::inflate_stream stream;
  std::array<char, 16 * 1'024> piece;
  std::string made;
  zlib::z_params rest;
  rest.next_in = input.data();
  rest.avail_in = input.size();
  while (made.size() <= bytes_max) {
    rest.next_out = piece.data();
    rest.avail_out = piece.size();
    boost::system::error_code said;
    stream.write(rest, zlib::Flush::sync, said);
    made.append(piece.data(), piece.size() - rest.avail_out);
    if (said == zlib::error::end_of_stream) {
      // Bytes behind the end are of nobody who deflates.
      return rest.avail_in <= 1 && made.size() <= bytes_max ? std::optional(made) : std::nullopt;
    }
    // Without progress it ends within, and waits for more.
    if (said || rest.avail_out == piece.size()) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace ddprun
