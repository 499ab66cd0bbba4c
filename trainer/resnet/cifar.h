// CIFAR-10 in its binary form (Krizhevsky 2009; cs.toronto.edu/~kriz/cifar.html): files of records
// of 3,073 bytes: the label, 0 to 9, then 32 x 32 pixels of red, of green, of blue, row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

inline constexpr std::int64_t kCifarSide = 32;
inline constexpr std::int64_t kCifarColours = 3;
inline constexpr std::size_t kCifarPixels = 3 * 32 * 32;
inline constexpr std::size_t kCifarRecord = 1 + kCifarPixels;
inline constexpr std::int64_t kCifarClasses = 10;

struct LabelledImages {
  std::vector<std::uint8_t> pixels;  ///< (N, 3, 32, 32)
  std::vector<std::int64_t> labels;  ///< (N)
  [[nodiscard]] std::size_t size() const { return labels.size(); }
  [[nodiscard]] const std::uint8_t* image(std::size_t i) const {
    return pixels.data() + i * kCifarPixels;
  }
};

/// Appends the records. Throws ddp::Error, in one sentence without the file's name, when they are
/// none, not whole, or have another label.
void append_cifar(std::string_view bytes, LabelledImages& images);

struct CifarData {
  LabelledImages train;     ///< data_batch_1.bin, data_batch_2.bin, ... without a gap
  LabelledImages test;      ///< test_batch.bin
  std::string fingerprint;  ///< of all pixels and labels
};

/// Throws ddp::Error with one sentence that names the file.
CifarData read_cifar(const std::filesystem::path& directory);

}  // namespace ddp
