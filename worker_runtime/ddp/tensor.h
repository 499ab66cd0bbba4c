// Tensor: a contiguous block of numbers with a shape, a type and a device. A handle: copies share
// the memory (clone() copies it). No arithmetic, no strides, no autograd: it carries parameters,
// gradients and batches between model, process group and snapshot.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/export.h"

namespace ddp {

enum class DType : std::uint8_t { f32, f64, i32, i64, u8, bf16 };

/// Bytes of one element.
DDP_EXPORT std::size_t size_of(DType dtype);
/// "f32", ...
DDP_EXPORT std::string_view name_of(DType dtype);

/// An element of DType::bf16: the upper half of a float, so its range with 8 significant bits.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// To the nearest, of two equally near ones to the even one; a NaN stays one.
  explicit BFloat16(float value) {
    const auto whole = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t half = 0x7fffU + (whole >> 16 & 1U);
    // Rounding could carry a NaN's last bit away: its quiet bit is set in place of it.
    bits = static_cast<std::uint16_t>(value != value ? whole >> 16 | 0x40U : (whole + half) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

/// The DType of a C++ type: dtype_of<float> is DType::f32.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0,
                "a Tensor holds float, double, int32_t, int64_t, uint8_t, BFloat16");
  return DType::u8;
}();
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;

/// Where memory lies. `index` is the CUDA device number; 0 for the CPU.
struct Device {
  enum class Kind : std::uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;

  static Device cpu() { return {}; }
  static Device cuda(int index) { return {Kind::cuda, index}; }
  [[nodiscard]] bool is_cpu() const { return kind == Kind::cpu; }
  [[nodiscard]] bool is_cuda() const { return kind == Kind::cuda; }
  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:1".
DDP_EXPORT std::string to_text(Device device);

using Shape = std::vector<std::int64_t>;

/// "[20, 1]".
DDP_EXPORT std::string to_text(const Shape& shape);

/// Every CUDA tensor is used on its device's default stream: copies below are ordered after the
/// kernels queued there. Copies to the host return when the bytes are there.
class DDP_EXPORT Tensor {
 public:
  /// No memory, 0 elements, shape [0], f32 on the CPU. defined() is false.
  Tensor();

  /// Memory that is not initialised. An empty shape {} is a scalar of one element. Throws
  /// InvalidArgument on a negative size, DeviceError when the GPU is not there or is full,
  /// std::bad_alloc without memory on the CPU.
  static Tensor empty(Shape shape, DType dtype = DType::f32, Device device = {});
  static Tensor zeros(Shape shape, DType dtype = DType::f32, Device device = {});
  /// Copies the values; their number must be that of the shape. One dimension without a shape.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape, Device device = {}) {
    return from_host(values.data(), values.size(), dtype_of<T>, shape, device);
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = {}) {
    return from(std::span<const T>(values), shape, device);
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, Device device = {}) {
    return from(std::span<const T>(values), {static_cast<std::int64_t>(values.size())}, device);
  }
  template <class T>
  static Tensor from(std::initializer_list<T> values, Device device = {}) {
    return from(std::span<const T>(values.begin(), values.size()),
                {static_cast<std::int64_t>(values.size())}, device);
  }
  /// Memory that somebody else owns; `owner` (may be null) is kept as long as any view of it.
  static Tensor wrap(void* data, Shape shape, DType dtype, Device device,
                     std::shared_ptr<void> owner);

  [[nodiscard]] bool defined() const { return storage_ != nullptr; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] Device device() const { return device_; }
  /// Number of elements.
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t size_bytes() const { return size_ * size_of(dtype_); }

  /// Address of the first element, in the memory of device(). Null when size() is 0.
  [[nodiscard]] void* raw() const { return data_; }
  /// The same, typed: throws InvalidArgument when T is not dtype().
  template <class T>
  [[nodiscard]] T* data() const {
    require_dtype(dtype_of<T>);
    return static_cast<T*>(data_);
  }
  /// The elements, CPU only (throws InvalidArgument on a CUDA tensor).
  template <class T>
  [[nodiscard]] std::span<T> values() const {
    require_dtype(dtype_of<T>);
    require_cpu();
    return {static_cast<T*>(data_), size_};
  }
  /// The elements copied to the host, from any device.
  template <class T>
  [[nodiscard]] std::vector<T> to_vector() const {
    require_dtype(dtype_of<T>);
    std::vector<T> result(size_);
    copy_to_host(result.data());
    return result;
  }
  /// The value of a tensor of one element, from any device.
  template <class T>
  [[nodiscard]] T item() const {
    require_dtype(dtype_of<T>);
    require_size(1);
    T value{};
    copy_to_host(&value);
    return value;
  }

  /// `count` elements from the flat index `first`, sharing the memory; one dimension, or the shape
  /// given (whose element count must be `count`).
  [[nodiscard]] Tensor view(std::size_t first, std::size_t count) const;
  [[nodiscard]] Tensor view(std::size_t first, Shape shape) const;
  /// The same memory in another shape of as many elements.
  [[nodiscard]] Tensor reshaped(Shape shape) const;

  /// Memory of its own with the same contents, on the same or on another device.
  [[nodiscard]] Tensor clone() const;
  [[nodiscard]] Tensor to(Device device) const;
  /// Overwrites the contents, across devices where need be. dtype and size must agree.
  void copy_from(const Tensor& source) const;
  /// Raw bytes from and to host memory; exactly size_bytes() of them.
  void copy_from_host(const void* bytes) const;
  void copy_to_host(void* bytes) const;
  void zero() const;
  /// Every element becomes `value`, converted to dtype().
  void fill(double value) const;

 private:
  static Tensor from_host(const void* values, std::size_t count, DType dtype, Shape shape,
                          Device device);
  void require_dtype(DType dtype) const;
  void require_cpu() const;
  void require_size(std::size_t size) const;

  std::shared_ptr<void> storage_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
  Shape shape_{0};
  DType dtype_ = DType::f32;
  Device device_;
};

}  // namespace ddp
