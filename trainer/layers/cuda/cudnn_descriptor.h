// BackendDescriptor: one of the descriptors that cuDNN's graphs are made of, with messages that
// name the descriptor and the attribute that cuDNN has refused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "ddp/error.h"
#include "trainer/layers/cuda/cudnn_abi.h"

namespace ddp::cudnn {

/// What cuDNN says of a refusal: the status by name, and its own sentence, which tells more.
std::string words_of(Status status);
/// What was asked for cannot be had on this card: cuDNN says so again each time. Any other failure
/// (no memory, a kernel that did not compile, the driver) may be of this moment.
class CudnnRefusal : public DeviceError {
 public:
  using DeviceError::DeviceError;
};
/// Throws CudnnRefusal, or DeviceError otherwise: "cuDNN: <what> failed with <its words>".
void check_cudnn(Status status, const std::string& what);

/// One of cuDNN's descriptors: filled attribute by attribute, then finalized.
class BackendDescriptor {
 public:
  explicit BackendDescriptor(DescriptorType type);
  ~BackendDescriptor();
  BackendDescriptor(BackendDescriptor&& other) noexcept
      : type_(other.type_), made_(std::exchange(other.made_, nullptr)) {}
  BackendDescriptor& operator=(BackendDescriptor&&) = delete;

  [[nodiscard]] Descriptor get() const { return made_; }

  template <class T>
  BackendDescriptor& set(Attribute attribute, AttributeType type, const T& value) {
    return set_all(attribute, type, &value, 1);
  }
  template <class T, std::size_t count>
  BackendDescriptor& set(Attribute attribute, AttributeType type,
                         const std::array<T, count>& values) {
    return set_all(attribute, type, values.data(), count);
  }
  BackendDescriptor& set(Attribute attribute, const BackendDescriptor& other) {
    return set(attribute, AttributeType::descriptor, other.made_);
  }
  /// Where a refusal is an answer and no error: not every engine runs on every card. Throws
  /// DeviceError of what is none.
  [[nodiscard]] Status try_finalize() const;
  BackendDescriptor& finalize();

  /// Returns how many there are; null values: that alone.
  template <class T>
  std::int64_t get(Attribute attribute, AttributeType type, T* values, std::int64_t wanted) const {
    return get_all(attribute, type, values, wanted);
  }

 private:
  BackendDescriptor& set_all(Attribute attribute, AttributeType type, const void* values,
                             std::size_t count);
  std::int64_t get_all(Attribute attribute, AttributeType type, void* values,
                       std::int64_t wanted) const;
  [[nodiscard]] std::string told(const char* act, Attribute attribute) const;

  DescriptorType type_;
  Descriptor made_ = nullptr;
};

}  // namespace ddp::cudnn
