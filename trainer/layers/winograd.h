// A convolution of kernel 3, stride 1 and padding 1 by Winograd's F(2x2, 3x3) (Lavin and Gray 2015,
// "Fast Algorithms for Convolutional Neural Networks", arXiv 1509.09308), in f32 on the CPU: 16
// multiplications for 4 pixels of a result, where the definition takes 36.
//
// A tile is 2 x 2 pixels of y, and the 4 x 4 of x that they depend on; outside the image x is 0.
// With d a tile of x, g a kernel, and sums over the channels:
//   y = A^T [(G g G^T) (B^T d B)] A      the products element by element
// So the channels' sums are 16 products of matrices, one for each place of the 4 x 4:
//   M (tiles, K) = V (tiles, C) U (C, K)
// d_x is the same of d_y, with the kernels turned around. The weights' gradient is the transpose:
//   d_g = G^T [sum over tiles of (B^T d B) (A d_y A^T)] G
//
// B and A hold 0, 1 and -1, G halves besides: the transforms add a few roundings to those of sums
// that are a ninth as long as the definition's.
// Letters as in conv2d.h. Both channel numbers must be multiples of kWinogradChannels.
#pragma once

#include <cstddef>

namespace ddp {

/// A multiple of every level's columns of a tile of a product: no loop has a rest.
inline constexpr std::size_t kWinogradChannels = 32;
inline constexpr std::size_t kWinogradPlaces = 16;

/// Of what goes in, x or d_y, to what comes out, y or d_x.
struct WinogradShape {
  std::size_t batch = 0, height = 0, width = 0;
  std::size_t in_channels = 0, out_channels = 0;

  [[nodiscard]] [[gnu::always_inline]] std::size_t tiles() const {
    return batch * ((height + 1) / 2) * ((width + 1) / 2);
  }
};

/// How a pass divides its scratch memory, in floats. Planes, one for each place of the 4 x 4, are a
/// cache line longer than they need be: at powers of two apart all 16 would fall into the same few
/// lines of the first-level cache.
struct WinogradScratch {
  std::size_t block = 0;         ///< tiles that are worked on at a time
  std::size_t in_plane = 0;      ///< of V
  std::size_t out_plane = 0;     ///< of M, or of A d_y A^T
  std::size_t outside = 0;       ///< a pixel for what is outside of the images
  std::size_t weight_plane = 0;  ///< of U, or of its gradient
  /// Partial sums of the gradient. The shape alone decides on their number, and so on the bits.
  std::size_t sums = 1;

  [[nodiscard]] [[gnu::always_inline]] std::size_t weights() const {
    return kWinogradPlaces * weight_plane;
  }
  /// V, M and the pixel, for each thread.
  [[nodiscard]] [[gnu::always_inline]] std::size_t blocks() const {
    return kWinogradPlaces * (in_plane + out_plane) + outside;
  }
};

/// y of x, or d_x of d_y.
struct WinogradForward {
  WinogradShape shape;
  const float* in = nullptr;      ///< (N, H, W, in)
  const float* weight = nullptr;  ///< (out, in, 3, 3), or for d_x (in, out, 3, 3)
  float* out = nullptr;           ///< (N, H, W, out), overwritten
  bool of_gradient = false;       ///< d_x of d_y
  WinogradScratch parts;
  float* scratch = nullptr;  ///< weights() + threads x blocks() floats, aligned to 64 bytes
  std::size_t threads = 1;   ///< where the rank has more, one computes alone
};

struct WinogradWeights {
  WinogradShape shape;  ///< of x to y
  const float* x = nullptr;
  const float* d_y = nullptr;
  float* d_weight = nullptr;  ///< (out, in, 3, 3), added to
  WinogradScratch parts;
  float* scratch = nullptr;  ///< parts.sums x weights() + threads x blocks() floats
  std::size_t threads = 1;   ///< where the rank has more, all of them work on each block
};

}  // namespace ddp
