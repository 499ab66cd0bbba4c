// cuDNN's binary interface, as far as we use it: its graphs ("backend"), so that the build needs no
// cuDNN and the one on the machine is used at run time. Names and numbers are those of
// cudnn_graph.h of cuDNN 9; tests/gpu/vendor_headers.cc compares all of it with them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddp::cudnn {

/// cudnnContext, opaque. A cudnnHandle_t points to it.
struct Handle;
/// cudnnBackendDescriptor_t.
using Descriptor = void*;

/// cudnnStatus_t, the one that is told apart.
enum class Status : int { success = 0 };

/// cudnnDataType_t.
enum class DataType : int { f32 = 0, bf16 = 9 };

/// cudnnConvolutionMode_t.
enum class ConvolutionMode : int { cross_correlation = 1 };

/// cudnnBackendHeurMode_t.
enum class HeuristicMode : int { fallback = 2, a = 3 };

/// cudnnBackendNumericalNote_t.
enum class NumericalNote : int { tensor_core = 0, down_convert_inputs = 1, nondeterministic = 4 };
/// CUDNN_NUMERICAL_NOTE_TYPE_COUNT of cuDNN 9.28, and some to spare: an engine has fewer.
inline constexpr std::int64_t kNotesMax = 32;

/// cudnnBackendDescriptorType_t.
enum class DescriptorType : int {
  convolution = 1,
  engine = 2,
  engine_config = 3,
  engine_heuristic = 4,
  execution_plan = 5,
  convolution_forward = 10,
  convolution_weights = 11,  ///< BACKWARD_FILTER
  convolution_data = 12,     ///< BACKWARD_DATA
  operation_graph = 15,
  variant_pack = 16,
  tensor = 17,
};

/// cudnnBackendAttributeType_t.
enum class AttributeType : int {
  handle = 0,
  data_type = 1,
  int64 = 3,
  f32 = 4,
  pointer = 6,
  convolution_mode = 7,
  heuristic_mode = 8,
  numerical_note = 11,
  descriptor = 15,
};

/// cudnnBackendAttributeName_t, without CUDNN_ATTR_.
enum class Attribute : int {
  convolution_comp_type = 100,
  convolution_conv_mode = 101,
  convolution_dilations = 102,
  convolution_filter_strides = 103,
  convolution_post_paddings = 104,
  convolution_pre_paddings = 105,
  convolution_spatial_dims = 106,
  engineheur_mode = 200,
  engineheur_operation_graph = 201,
  engineheur_results = 202,
  enginecfg_engine = 300,
  execution_plan_handle = 400,
  execution_plan_engine_config = 401,
  execution_plan_workspace_size = 402,
  forward_alpha = 700,
  forward_beta = 701,
  forward_conv_desc = 702,
  forward_w = 703,
  forward_x = 704,
  forward_y = 705,
  data_alpha = 706,
  data_beta = 707,
  data_conv_desc = 708,
  data_w = 709,
  data_dx = 710,
  data_dy = 711,
  weights_alpha = 712,
  weights_beta = 713,
  weights_conv_desc = 714,
  weights_dw = 715,
  weights_x = 716,
  weights_dy = 717,
  operationgraph_handle = 800,
  operationgraph_ops = 801,
  tensor_byte_alignment = 900,
  tensor_data_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_unique_id = 906,
  variant_pack_unique_ids = 1000,
  variant_pack_data_pointers = 1001,
  variant_pack_workspace = 1003,
  engine_global_index = 1301,
  engine_numerical_note = 1303,
};

}  // namespace ddp::cudnn
