// cuDNN on host memory, for tests alone: as much of its graphs as trainer/layers builds: one
// convolution or one of its gradients, added up in doubles in a fixed order. It refuses, with a
// status and a sentence, attributes that a descriptor does not have, wrong types and counts, what
// is not finalized, and shapes that do not fit. As the real one it first offers an engine whose
// results are not always alike, then one with tensor cores, which round floats; and it knows no f32
// gradient of bf16 weights for some convolutions (those with a stride). By variables:
//   DDPRUN_STANDIN_CUDNN_VERSION=N  it is cuDNN N
//   DDPRUN_STANDIN_CUDNN_ENGINES=N  it offers the first N of its engines
//   DDPRUN_STANDIN_CUDNN_PLAN=S     no plan of the one with tensor cores is made: status S
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "ddp/export.h"
#include "ddp/tensor.h"
#include "trainer/layers/cuda/cudnn_abi.h"

namespace ddp::cudnn {

struct Handle {};

namespace {

constexpr Status kBadParam{2000}, kNotFinalized{2004}, kNotSupported{3000}, kNoMemory{4003};

std::string& last_error() {
  thread_local std::string text;
  return text;
}

Status refuse(Status status, std::string why) {
  last_error() = std::move(why);
  return status;
}

struct Value {
  AttributeType type;
  std::int64_t count = 0;
  std::vector<char> bytes;
};

struct Node {
  DescriptorType type;
  std::map<Attribute, Value> values;
  bool finalized = false;
  std::int64_t engine = -1;  ///< of an engine and its configuration
};

std::size_t bytes_of(AttributeType type) {
  switch (type) {
    case AttributeType::handle:
    case AttributeType::pointer:
    case AttributeType::descriptor:
      return sizeof(void*);
    case AttributeType::int64:
      return sizeof(std::int64_t);
    default:
      return 4;  // enumerations, and floats
  }
}

struct Rule {
  DescriptorType descriptor;
  Attribute attribute;
  AttributeType type;
  std::int64_t count;
};

/// What may be set, and must be: cudnn_graph.h says so at each descriptor.
const std::vector<Rule>& rules() {
  using D = DescriptorType;
  using A = Attribute;
  using T = AttributeType;
  static const std::vector<Rule> all = {
      {D::tensor, A::tensor_unique_id, T::int64, 1},
      {D::tensor, A::tensor_data_type, T::data_type, 1},
      {D::tensor, A::tensor_byte_alignment, T::int64, 1},
      {D::tensor, A::tensor_dimensions, T::int64, 4},
      {D::tensor, A::tensor_strides, T::int64, 4},
      {D::convolution, A::convolution_comp_type, T::data_type, 1},
      {D::convolution, A::convolution_conv_mode, T::convolution_mode, 1},
      {D::convolution, A::convolution_spatial_dims, T::int64, 1},
      {D::convolution, A::convolution_dilations, T::int64, 2},
      {D::convolution, A::convolution_filter_strides, T::int64, 2},
      {D::convolution, A::convolution_pre_paddings, T::int64, 2},
      {D::convolution, A::convolution_post_paddings, T::int64, 2},
      {D::convolution_forward, A::forward_conv_desc, T::descriptor, 1},
      {D::convolution_forward, A::forward_x, T::descriptor, 1},
      {D::convolution_forward, A::forward_w, T::descriptor, 1},
      {D::convolution_forward, A::forward_y, T::descriptor, 1},
      {D::convolution_forward, A::forward_alpha, T::f32, 1},
      {D::convolution_forward, A::forward_beta, T::f32, 1},
      {D::convolution_data, A::data_conv_desc, T::descriptor, 1},
      {D::convolution_data, A::data_dx, T::descriptor, 1},
      {D::convolution_data, A::data_w, T::descriptor, 1},
      {D::convolution_data, A::data_dy, T::descriptor, 1},
      {D::convolution_data, A::data_alpha, T::f32, 1},
      {D::convolution_data, A::data_beta, T::f32, 1},
      {D::convolution_weights, A::weights_conv_desc, T::descriptor, 1},
      {D::convolution_weights, A::weights_x, T::descriptor, 1},
      {D::convolution_weights, A::weights_dw, T::descriptor, 1},
      {D::convolution_weights, A::weights_dy, T::descriptor, 1},
      {D::convolution_weights, A::weights_alpha, T::f32, 1},
      {D::convolution_weights, A::weights_beta, T::f32, 1},
      {D::operation_graph, A::operationgraph_handle, T::handle, 1},
      {D::operation_graph, A::operationgraph_ops, T::descriptor, 1},
      {D::engine_heuristic, A::engineheur_operation_graph, T::descriptor, 1},
      {D::engine_heuristic, A::engineheur_mode, T::heuristic_mode, 1},
      {D::execution_plan, A::execution_plan_handle, T::handle, 1},
      {D::execution_plan, A::execution_plan_engine_config, T::descriptor, 1},
      {D::variant_pack, A::variant_pack_unique_ids, T::int64, 3},
      {D::variant_pack, A::variant_pack_data_pointers, T::pointer, 3},
      {D::variant_pack, A::variant_pack_workspace, T::pointer, 1}};
  return all;
}

Node& node(Descriptor descriptor) {
  return *static_cast<Node*>(descriptor);
}

template <class T>
T value(const Node& of, Attribute attribute, std::size_t index = 0) {
  T found{};
  std::memcpy(&found, of.values.at(attribute).bytes.data() + index * sizeof(T), sizeof(T));
  return found;
}

const Node& child(const Node& of, Attribute attribute) {
  return node(value<Descriptor>(of, attribute));
}

using Sizes = std::array<std::int64_t, 4>;

Sizes sizes(const Node& tensor) {
  Sizes found{};
  for (std::size_t i = 0; i < 4; ++i) {
    found[i] = value<std::int64_t>(tensor, Attribute::tensor_dimensions, i);
  }
  return found;
}

/// Whether channels are neighbours and nothing is left out between.
bool is_packed(const Node& tensor) {
  const Sizes size = sizes(tensor);
  const Sizes wanted = {size[1] * size[2] * size[3], 1, size[1] * size[3], size[1]};
  for (std::size_t i = 0; i < 4; ++i) {
    if (value<std::int64_t>(tensor, Attribute::tensor_strides, i) != wanted[i]) {
      return false;
    }
  }
  return true;
}

DataType type_of(const Node& tensor) {
  return value<DataType>(tensor, Attribute::tensor_data_type);
}

/// One operation, by its own names.
struct Operation {
  const Node *x, *w, *y, *convolution;
  DescriptorType type;

  explicit Operation(const Node& operation) : type(operation.type) {
    using enum Attribute;
    const bool forward = type == DescriptorType::convolution_forward;
    const bool data = type == DescriptorType::convolution_data;
    x = &child(operation, forward ? forward_x : data ? data_dx : weights_x);
    w = &child(operation, forward ? forward_w : data ? data_w : weights_dw);
    y = &child(operation, forward ? forward_y : data ? data_dy : weights_dy);
    convolution = &child(operation, forward ? forward_conv_desc
                                    : data  ? data_conv_desc
                                            : weights_conv_desc);
  }
  [[nodiscard]] std::int64_t stride() const {
    return value<std::int64_t>(*convolution, Attribute::convolution_filter_strides);
  }
  [[nodiscard]] std::int64_t padding() const {
    return value<std::int64_t>(*convolution, Attribute::convolution_pre_paddings);
  }
  [[nodiscard]] bool fits() const {
    const Sizes in = sizes(*x), kernel = sizes(*w), out = sizes(*y);
    const auto reduced = [&](std::int64_t size, std::int64_t taps) {
      return (size + 2 * padding() - taps) / stride() + 1;
    };
    return in[0] == out[0] && in[1] == kernel[1] && kernel[0] == out[1] &&
           out[2] == reduced(in[2], kernel[2]) && out[3] == reduced(in[3], kernel[3]) &&
           is_packed(*x) && is_packed(*w) && is_packed(*y) && type_of(*x) == type_of(*y);
  }
};

/// `coarse`: as tensor cores read floats, though those keep three bits more.
std::vector<float> read(const Node& tensor, const void* data, bool coarse) {
  const Sizes size = sizes(tensor);
  std::vector<float> values(static_cast<std::size_t>(size[0] * size[1] * size[2] * size[3]));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = type_of(tensor) == DataType::f32
                    ? static_cast<const float*>(data)[i]
                    : static_cast<float>(static_cast<const BFloat16*>(data)[i]);
    values[i] = coarse ? static_cast<float>(BFloat16(values[i])) : values[i];
  }
  return values;
}

void write(const Node& tensor, void* data, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto single = static_cast<float>(values[i]);
    if (type_of(tensor) == DataType::f32) {
      static_cast<float*>(data)[i] = single;
    } else {
      static_cast<BFloat16*>(data)[i] = BFloat16(single);
    }
  }
}

/// Calls body(first x, first w, first y) for each output channel of each tap of each output pixel:
/// the channels of x and w follow from there.
template <class Body>
void for_taps(const Operation& operation, const Body& body) {
  const Sizes in = sizes(*operation.x), kernel = sizes(*operation.w), out = sizes(*operation.y);
  const std::int64_t stride = operation.stride(), padding = operation.padding();
  for (std::int64_t n = 0; n < out[0]; ++n) {
    for (std::int64_t pixel = 0; pixel < out[2] * out[3]; ++pixel) {
      for (std::int64_t tap = 0; tap < kernel[2] * kernel[3]; ++tap) {
        const std::int64_t h = pixel / out[3] * stride - padding + tap / kernel[3];
        const std::int64_t w = pixel % out[3] * stride - padding + tap % kernel[3];
        if (h < 0 || h >= in[2] || w < 0 || w >= in[3]) {
          continue;
        }
        for (std::int64_t k = 0; k < out[1]; ++k) {
          body(static_cast<std::size_t>(((n * in[2] + h) * in[3] + w) * in[1]),
               static_cast<std::size_t>((k * kernel[2] * kernel[3] + tap) * in[1]),
               static_cast<std::size_t>((n * out[2] * out[3] + pixel) * out[1] + k));
        }
      }
    }
  }
}

std::size_t count_of(const Node& tensor) {
  const Sizes size = sizes(tensor);
  return static_cast<std::size_t>(size[0] * size[1] * size[2] * size[3]);
}

void run(const Operation& operation, bool coarse, void* x, void* w, void* y) {
  const auto channels = static_cast<std::size_t>(sizes(*operation.x)[1]);
  const auto add = [channels](double* to, const float* from, double factor) {
    for (std::size_t c = 0; c < channels; ++c) {
      to[c] += factor * static_cast<double>(from[c]);
    }
  };
  if (operation.type == DescriptorType::convolution_forward) {
    const auto image = read(*operation.x, x, coarse), weight = read(*operation.w, w, coarse);
    std::vector<double> result(count_of(*operation.y));
    for_taps(operation, [&](std::size_t i, std::size_t j, std::size_t o) {
      double sum = 0;
      for (std::size_t c = 0; c < channels; ++c) {
        sum += static_cast<double>(image[i + c]) * static_cast<double>(weight[j + c]);
      }
      result[o] += sum;
    });
    write(*operation.y, y, result);
  } else if (operation.type == DescriptorType::convolution_data) {
    const auto gradient = read(*operation.y, y, coarse), weight = read(*operation.w, w, coarse);
    std::vector<double> result(count_of(*operation.x));
    for_taps(operation, [&](std::size_t i, std::size_t j, std::size_t o) {
      add(&result[i], &weight[j], static_cast<double>(gradient[o]));
    });
    write(*operation.x, x, result);
  } else {
    const auto gradient = read(*operation.y, y, coarse), image = read(*operation.x, x, coarse);
    std::vector<double> result(count_of(*operation.w));
    for_taps(operation, [&](std::size_t i, std::size_t j, std::size_t o) {
      add(&result[j], &image[i], static_cast<double>(gradient[o]));
    });
    write(*operation.w, w, result);
  }
}

const Node& operation_of(const Node& graph) {
  return child(graph, Attribute::operationgraph_ops);
}

/// The first is the one that a caller who wants equal bits must not take; the second has tensor
/// cores.
constexpr std::int64_t kVarying = 0, kTensorCores = 1, kEngines = 3;

std::int64_t variable(const char* name, std::int64_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atoll(value) : otherwise;
}

Status check_finalized(const Node& made) {
  for (const Rule& rule : rules()) {
    if (rule.descriptor != made.type) {
      continue;
    }
    if (!made.values.count(rule.attribute)) {
      return refuse(kBadParam, "attribute " + std::to_string(static_cast<int>(rule.attribute)) +
                                   " is not set");
    }
    if (rule.type == AttributeType::descriptor && !child(made, rule.attribute).finalized) {
      return refuse(kNotFinalized, "attribute " + std::to_string(static_cast<int>(rule.attribute)) +
                                       " is a descriptor that is not finalized");
    }
  }
  using enum DescriptorType;
  if ((made.type == convolution_forward || made.type == convolution_data ||
       made.type == convolution_weights) &&
      !Operation(made).fits()) {
    return refuse(kBadParam, "the tensors are no valid convolution");
  }
  if (made.type == engine_heuristic) {
    const Operation of(operation_of(child(made, Attribute::engineheur_operation_graph)));
    if (type_of(*of.w) != type_of(*of.x) && of.stride() != 1) {
      return refuse(kNotSupported, "no engine has this mix of types");
    }
  }
  if (made.type == execution_plan &&
      child(made, Attribute::execution_plan_engine_config).engine == kTensorCores) {
    if (const Status asked{static_cast<int>(variable("DDPRUN_STANDIN_CUDNN_PLAN", 0))};
        asked != Status::success) {
      return refuse(asked, "it was told to make no such plan");
    }
  }
  return Status::success;
}

/// What belongs to finalized descriptors alone.
Status get_result(Node& of, Attribute attribute, std::int64_t wanted, std::int64_t* count,
                  void* values) {
  if (attribute == Attribute::engineheur_results) {
    const auto engines = variable("DDPRUN_STANDIN_CUDNN_ENGINES", kEngines);
    *count = wanted == 0 ? engines : std::min(wanted, engines);
    for (std::int64_t i = 0; values != nullptr && i < *count; ++i) {
      Node& config = node(static_cast<Descriptor*>(values)[i]);
      config.engine = i;
      config.finalized = true;
      config.values[Attribute::engineheur_operation_graph] =
          of.values.at(Attribute::engineheur_operation_graph);
    }
  } else if (attribute == Attribute::enginecfg_engine) {
    Node& engine = node(*static_cast<Descriptor*>(values));
    engine.engine = of.engine;
    engine.finalized = true;
    *count = 1;
  } else if (attribute == Attribute::engine_numerical_note) {
    *count = of.engine <= kTensorCores ? 1 : 0;
    if (*count > 0 && wanted > 0) {
      *static_cast<NumericalNote*>(values) =
          of.engine == kVarying ? NumericalNote::nondeterministic : NumericalNote::tensor_core;
    }
  } else if (attribute == Attribute::execution_plan_workspace_size) {
    *count = 1;
    *static_cast<std::int64_t*>(values) = 1000;
  } else {
    return refuse(kNotSupported, "attribute " + std::to_string(static_cast<int>(attribute)) +
                                     " cannot be read here");
  }
  return Status::success;
}

}  // namespace

extern "C" {

DDP_EXPORT std::size_t cudnnGetVersion() {
  return static_cast<std::size_t>(variable("DDPRUN_STANDIN_CUDNN_VERSION", 90100));
}
DDP_EXPORT const char* cudnnGetErrorString(Status status) {
  return status == kBadParam       ? "CUDNN_STATUS_BAD_PARAM"
         : status == kNotFinalized ? "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED"
         : status == kNotSupported ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status == kNoMemory     ? "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"
                                   : "CUDNN_STATUS_SUCCESS";
}
DDP_EXPORT void cudnnGetLastErrorString(char* text, std::size_t bytes) {
  const std::string& error = last_error();
  const std::size_t count = std::min(error.size(), bytes - 1);
  std::copy_n(error.data(), count, text);
  text[count] = '\0';
}
DDP_EXPORT Status cudnnCreate(Handle** context) {
  *context = std::make_unique<Handle>().release();
  return Status::success;
}
DDP_EXPORT Status cudnnBackendCreateDescriptor(DescriptorType type, Descriptor* made) {
  *made = std::make_unique<Node>(Node{type, {}}).release();
  return Status::success;
}
DDP_EXPORT Status cudnnBackendDestroyDescriptor(Descriptor made) {
  std::default_delete<Node>()(static_cast<Node*>(made));
  return Status::success;
}
DDP_EXPORT Status cudnnBackendSetAttribute(Descriptor descriptor, Attribute attribute,
                                           AttributeType type, std::int64_t count,
                                           const void* values) {
  Node& of = node(descriptor);
  const auto rule = std::find_if(rules().begin(), rules().end(), [&](const Rule& one) {
    return one.descriptor == of.type && one.attribute == attribute;
  });
  if (of.finalized || rule == rules().end() || rule->type != type || rule->count != count) {
    return refuse(kBadParam, "an attribute that is not there, or of another type or count");
  }
  const auto* bytes = static_cast<const char*>(values);
  of.values[attribute] = {
      type, count, {bytes, bytes + static_cast<std::size_t>(count) * bytes_of(type)}};
  return Status::success;
}
DDP_EXPORT Status cudnnBackendGetAttribute(Descriptor descriptor, Attribute attribute,
                                           AttributeType /*type*/, std::int64_t wanted,
                                           std::int64_t* count, void* values) {
  Node& of = node(descriptor);
  return of.finalized ? get_result(of, attribute, wanted, count, values)
                      : refuse(kNotFinalized, "it is not finalized");
}
DDP_EXPORT Status cudnnBackendFinalize(Descriptor descriptor) {
  Node& made = node(descriptor);
  const Status status = check_finalized(made);
  made.finalized = status == Status::success;
  return status;
}
DDP_EXPORT Status cudnnBackendExecute(Handle* /*context*/, Descriptor plan, Descriptor pack) {
  const Node& config = child(node(plan), Attribute::execution_plan_engine_config);
  if (!node(plan).finalized || !node(pack).finalized || config.engine == kVarying) {
    return refuse(kBadParam,
                  "a plan or a pack that is not finalized, or of an engine whose results "
                  "differ from run to run");
  }
  const Operation operation(operation_of(child(config, Attribute::engineheur_operation_graph)));
  const auto memory = [&](const Node* tensor) {
    const auto id = value<std::int64_t>(*tensor, Attribute::tensor_unique_id);
    for (std::size_t i = 0; i < 3; ++i) {
      if (value<std::int64_t>(node(pack), Attribute::variant_pack_unique_ids, i) == id) {
        return value<void*>(node(pack), Attribute::variant_pack_data_pointers, i);
      }
    }
    return static_cast<void*>(nullptr);
  };
  // All of the workspace is written to: one that is too small shows in an address sanitizer.
  std::memset(value<void*>(node(pack), Attribute::variant_pack_workspace), 0xff, 1000);
  run(operation, config.engine == kTensorCores, memory(operation.x), memory(operation.w),
      memory(operation.y));
  return Status::success;
}

}  // extern "C"

}  // namespace ddp::cudnn
