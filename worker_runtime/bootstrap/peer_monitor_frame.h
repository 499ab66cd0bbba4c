// Frames of the lifeline: what rank 0 and the others say to each other besides tensors. Pure.
//
// Wire: u32 length of the rest | u8 type | i32 rank | bytes. Little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

struct LifelineFrame {
  enum class Type : std::uint8_t {
    hello = 1,  ///< rank -> 0: rank, text = kLifelineGreeting + world size
    welcome,    ///< 0 -> rank: text = the address at which other ranks can reach it
    addresses,  ///< rank -> 0: text = pack_blobs of one transport address for each rank
    peers,      ///< 0 -> rank: text = pack_blobs of every rank's transport address for it
    lost,       ///< both ways: rank that failed (-1 unknown), text = reason
    left,       ///< both ways: rank that left in order
    all_left,   ///< 0 -> rank: everybody has
    data,       ///< rank -> 0, like hello: this connection is the rank's one to the star
  };
  Type type = Type::hello;
  int rank = 0;
  std::string text = {};

  friend bool operator==(const LifelineFrame&, const LifelineFrame&) = default;
};

inline constexpr std::string_view kLifelineGreeting = "ddprun-lifeline-2 ";
/// The largest honest frame is `peers`: some 150 bytes for each rank.
inline constexpr std::size_t kLifelineMaxFrame = std::size_t{4} << 20;

std::string encode(const LifelineFrame& frame);

/// Takes the first whole frame off `bytes`. nullopt: not whole yet. `broken` becomes true on bytes
/// that are no frame of ours; the connection is then to be closed.
std::optional<LifelineFrame> take_frame(std::string& bytes, bool& broken);

/// A list of byte strings as one, and back; nullopt for a text that pack_blobs did not make.
std::string pack_blobs(const std::vector<std::string>& blobs);
std::optional<std::vector<std::string>> unpack_blobs(std::string_view text);

}  // namespace ddp
