#include "trainer/layers/cuda/cudnn_descriptor.h"

#include "trainer/layers/cuda/cudnn_library.h"

namespace ddp::cudnn {
namespace {

/// NVIDIA's manual names descriptors so, with CUDNN_BACKEND_ before it. A message that has this
/// name and an attribute's number can be looked up in cudnn_graph.h.
const char* name_of(DescriptorType type) {
  switch (type) {
    case DescriptorType::convolution:
      return "CONVOLUTION";
    case DescriptorType::engine:
      return "ENGINE";
    case DescriptorType::engine_config:
      return "ENGINECFG";
    case DescriptorType::engine_heuristic:
      return "ENGINEHEUR";
    case DescriptorType::execution_plan:
      return "EXECUTION_PLAN";
    case DescriptorType::convolution_forward:
      return "OPERATION_CONVOLUTION_FORWARD";
    case DescriptorType::convolution_weights:
      return "OPERATION_CONVOLUTION_BACKWARD_FILTER";
    case DescriptorType::convolution_data:
      return "OPERATION_CONVOLUTION_BACKWARD_DATA";
    case DescriptorType::operation_graph:
      return "OPERATIONGRAPH";
    case DescriptorType::variant_pack:
      return "VARIANT_PACK";
    case DescriptorType::tensor:
      return "TENSOR";
  }
  return "unknown";
}

/// The categories of cudnn_graph.h (CUDNN_STATUS_CATEGORY) that speak of what was asked for: bad
/// parameters, and what is not supported.
bool is_refusal(Status status) {
  const int category = static_cast<int>(status) / 1000;
  return category == 2 || category == 3;
}

}  // namespace

/// The library keeps the sentence of this thread's last error alone, so it is asked at once.
std::string words_of(Status status) {
  std::array<char, 512> sentence{};
  cudnn_library().get_last_error_string(sentence.data(), sentence.size());
  sentence.back() = '\0';
  return std::string(cudnn_library().get_error_string(status)) + ": " + sentence.data();
}

void check_cudnn(Status status, const std::string& what) {
  if (status != Status::success) {
    const std::string why = "cuDNN: " + what + " failed with " + words_of(status);
    if (is_refusal(status)) {
      throw CudnnRefusal(why);
    }
    throw DeviceError(why);
  }
}

BackendDescriptor::BackendDescriptor(DescriptorType type) : type_(type) {
  check_cudnn(cudnn_library().create_descriptor(type, &made_),
              std::string("to create descriptor ") + name_of(type));
}

/// A refusal to destroy is not told: there is nothing that a caller could do.
BackendDescriptor::~BackendDescriptor() {
  if (made_ != nullptr) {
    cudnn_library().destroy_descriptor(made_);
  }
}

/// cuDNN checks all attributes together here, and takes no further ones.
Status BackendDescriptor::try_finalize() const {
  const Status status = cudnn_library().finalize(made_);
  if (!is_refusal(status)) {
    check_cudnn(status, std::string("to finalize descriptor ") + name_of(type_));
  }
  return status;
}

BackendDescriptor& BackendDescriptor::finalize() {
  check_cudnn(try_finalize(), std::string("to finalize descriptor ") + name_of(type_));
  return *this;
}

BackendDescriptor& BackendDescriptor::set_all(Attribute attribute, AttributeType type,
                                              const void* values, std::size_t count) {
  check_cudnn(cudnn_library().set_attribute(made_, attribute, type,
                                            static_cast<std::int64_t>(count), values),
              told("to set", attribute));
  return *this;
}

std::int64_t BackendDescriptor::get_all(Attribute attribute, AttributeType type, void* values,
                                        std::int64_t wanted) const {
  std::int64_t count = 0;
  check_cudnn(cudnn_library().get_attribute(made_, attribute, type, wanted, &count, values),
              told("to read", attribute));
  return count;
}

/// By number: attributes have hundreds of names, and cudnn_graph.h has them all.
std::string BackendDescriptor::told(const char* act, Attribute attribute) const {
  return std::string(act) + " attribute " + std::to_string(static_cast<int>(attribute)) +
         " of descriptor " + name_of(type_);
}

}  // namespace ddp::cudnn
