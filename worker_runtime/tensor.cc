#include "ddp/tensor.h"

#include <fmt/core.h>

#include <cstring>
#include <limits>
#include <new>

#include "ddp/error.h"
#include "worker_runtime/gpu.h"

namespace ddp {
namespace {

// A cache line: what vectorised loops and BLAS like best.
constexpr std::size_t kAlignment = 64;

std::size_t element_count(const Shape& shape) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      throw InvalidArgument("a tensor cannot have the shape " + to_text(shape));
    }
    const auto factor = static_cast<std::size_t>(extent);
    // By 16, since no element type is wider: bytes can then be counted without overflow, too.
    if (factor != 0 && count > std::numeric_limits<std::size_t>::max() / 16 / factor) {
      throw InvalidArgument("the shape " + to_text(shape) + " is too large to be addressed");
    }
    count *= factor;
  }
  return count;
}

std::shared_ptr<void> allocate(std::size_t bytes, Device device) {
  if (device.is_cuda()) {
    return require_gpu().allocate(device.index, bytes);
  }
  const std::align_val_t alignment{kAlignment};
  // An empty tensor owns a byte, so that it counts as defined.
  void* data = ::operator new(bytes == 0 ? 1 : bytes, alignment);
  // Memory of the aligned operator new goes back by the aligned delete.
  return {data, [alignment](void* memory) {
            ::operator delete(memory, alignment);  // allowed: the deleter of its one owner
          }};
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device,
                std::size_t bytes) {
  if (bytes == 0) {
    return;
  }
  // memmove(3): two views of one tensor may overlap.
  if (to_device.is_cpu() && from_device.is_cpu()) {
    std::memmove(to, from, bytes);
  } else {
    require_gpu().copy(to, to_device, from, from_device, bytes);
  }
}

template <class T>
void fill_host(void* data, std::size_t count, double value) {
  std::fill_n(static_cast<T*>(data), count, static_cast<T>(value));
}

}  // namespace

/// Also the sizes of the safetensors format and of NCCL's data types: they leave this process.
std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::bf16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 1;
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
    case DType::bf16:
      return "bf16";
  }
  return "?";
}

std::string to_text(Device device) {
  return device.is_cpu() ? "cpu" : "cuda:" + std::to_string(device.index);
}

std::string to_text(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

Tensor::Tensor() = default;

Tensor Tensor::empty(Shape shape, DType dtype, Device device) {
  Tensor tensor;
  tensor.size_ = element_count(shape);
  tensor.shape_ = std::move(shape);
  tensor.dtype_ = dtype;
  tensor.device_ = device;
  tensor.storage_ = allocate(tensor.size_bytes(), device);
  // Empty tensors have no address, so a read from one is a clean fault.
  tensor.data_ = tensor.size_ == 0 ? nullptr : tensor.storage_.get();
  return tensor;
}

Tensor Tensor::zeros(Shape shape, DType dtype, Device device) {
  Tensor tensor = empty(std::move(shape), dtype, device);
  tensor.zero();
  return tensor;
}

Tensor Tensor::from_host(const void* values, std::size_t count, DType dtype, Shape shape,
                         Device device) {
  Tensor tensor = empty(std::move(shape), dtype, device);
  // Before a byte is read: `values` has no more than `count` of them.
  if (count != tensor.size()) {
    throw InvalidArgument(fmt::format("a tensor of the shape {} was given {} values",
                                      to_text(tensor.shape()), count));
  }
  tensor.copy_from_host(values);
  return tensor;
}

/// For memory of others, such as a snapshot's buffer: nothing is copied.
Tensor Tensor::wrap(void* data, Shape shape, DType dtype, Device device,
                    std::shared_ptr<void> owner) {
  Tensor tensor;
  tensor.size_ = element_count(shape);
  tensor.shape_ = std::move(shape);
  tensor.dtype_ = dtype;
  tensor.device_ = device;
  tensor.data_ = tensor.size_ == 0 ? nullptr : data;
  // Without an owner the handle still has to count as defined: a pointer that owns nothing does.
  tensor.storage_ = owner ? std::move(owner) : std::shared_ptr<void>(data, [](void*) {});
  return tensor;
}

Tensor Tensor::view(std::size_t first, std::size_t count) const {
  return view(first, Shape{static_cast<std::int64_t>(count)});
}

Tensor Tensor::view(std::size_t first, Shape shape) const {
  const std::size_t count = element_count(shape);
  // In this form, since first + count might wrap.
  if (first > size_ || count > size_ - first) {
    throw InvalidArgument(fmt::format(
        "a view of {} elements from {} does not fit in a tensor of {}", count, first, size_));
  }
  // The view shares the storage: the memory stays as long as the last view of it.
  Tensor result = *this;
  result.data_ = count == 0 ? nullptr : static_cast<std::byte*>(data_) + first * size_of(dtype_);
  result.size_ = count;
  result.shape_ = std::move(shape);
  return result;
}

Tensor Tensor::reshaped(Shape shape) const {
  if (element_count(shape) != size_) {
    throw InvalidArgument("a tensor of shape " + to_text(shape_) + " cannot be seen as " +
                          to_text(shape));
  }
  return view(0, std::move(shape));
}

Tensor Tensor::clone() const {
  return to(device_);
}

Tensor Tensor::to(Device device) const {
  // Always a copy, also to the same device.
  Tensor result = empty(shape_, dtype_, device);
  result.copy_from(*this);
  return result;
}

void Tensor::copy_from(const Tensor& source) const {
  // No conversion: another type is a mistake of the caller.
  require_dtype(source.dtype_);
  require_size(source.size_);
  copy_bytes(data_, device_, source.data_, source.device_, size_bytes());
}

void Tensor::copy_from_host(const void* bytes) const {
  copy_bytes(data_, device_, bytes, Device::cpu(), size_bytes());
}

void Tensor::copy_to_host(void* bytes) const {
  copy_bytes(bytes, Device::cpu(), data_, device_, size_bytes());
}

void Tensor::zero() const {
  if (size_ == 0) {
    return;
  }
  if (device_.is_cuda()) {
    require_gpu().zero(data_, size_bytes(), device_.index);
  } else {
    std::memset(data_, 0, size_bytes());
  }
}

void Tensor::fill(double value) const {
  if (size_ == 0) {
    return;
  }
  if (device_.is_cuda()) {
    require_gpu().fill(data_, size_, dtype_, value, device_.index);
    return;
  }
  switch (dtype_) {
    case DType::f32:
      return fill_host<float>(data_, size_, value);
    case DType::f64:
      return fill_host<double>(data_, size_, value);
    case DType::i32:
      return fill_host<std::int32_t>(data_, size_, value);
    case DType::i64:
      return fill_host<std::int64_t>(data_, size_, value);
    case DType::u8:
      return fill_host<std::uint8_t>(data_, size_, value);
    case DType::bf16:
      std::fill_n(static_cast<BFloat16*>(data_), size_, BFloat16(static_cast<float>(value)));
      return;
  }
}

void Tensor::require_dtype(DType dtype) const {
  if (dtype != dtype_) {
    throw InvalidArgument("a tensor of " + std::string(name_of(dtype_)) + " was used as one of " +
                          std::string(name_of(dtype)));
  }
}

void Tensor::require_cpu() const {
  if (!device_.is_cpu()) {
    throw InvalidArgument("the memory of a tensor on " + to_text(device_) +
                          " cannot be read from the CPU; use to_vector() or to()");
  }
}

void Tensor::require_size(std::size_t size) const {
  if (size != size_) {
    throw InvalidArgument(
        fmt::format("a tensor of {} elements was used as one of {}", size_, size));
  }
}

}  // namespace ddp
