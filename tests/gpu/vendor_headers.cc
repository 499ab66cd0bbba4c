// What nccl_abi.h, cublaslt_abi.h and cudnn_abi.h say, compared with NVIDIA's own headers, at
// compile time: each number, the places of fields, and every function's type.
// vendor_headers_test.py compiles it.
#include <cublasLt.h>
#include <cudnn_graph.h>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "trainer/layers/cuda/cublaslt_library.h"
#include "trainer/layers/cuda/cudnn_library.h"
#include "worker_runtime/cuda/nccl_library.h"

namespace {

/// The vendor's type for one of ours, all through pointers and functions; itself where both have
/// the same.
template <class Ours>
struct Vendor {
  using Type = Ours;
};
template <class Ours>
using VendorOf = typename Vendor<Ours>::Type;
template <class Ours>
struct Vendor<const Ours> {
  using Type = const VendorOf<Ours>;
};
template <class Ours>
struct Vendor<Ours*> {
  using Type = VendorOf<Ours>*;
};
template <class Result, class... Arguments>
struct Vendor<Result(Arguments...)> {
  using Type = VendorOf<Result>(VendorOf<Arguments>...);
};

// Ours is theirs: opaque, a structure whose places are compared below, or a number of equal size.
#define IS_VENDORS(ours, vendors) \
  template <>                     \
  struct Vendor<ours> {           \
    using Type = vendors;         \
  }
#define IS_VENDORS_NUMBER(ours, vendors) \
  IS_VENDORS(ours, vendors);             \
  static_assert(sizeof(ours) == sizeof(vendors))
#define SAME_FUNCTION(library, ours, vendors) \
  static_assert(std::is_same_v<VendorOf<decltype(library::ours)>, decltype(&vendors)>)
#define SAME_NUMBER(ours, vendors) \
  static_assert(static_cast<long>(ours) == static_cast<long>(vendors))
#define SAME_PLACE(ours, our_field, vendors, their_field)                      \
  static_assert(offsetof(ours, our_field) == offsetof(vendors, their_field) && \
                sizeof(ours::our_field) == sizeof(vendors::their_field))

IS_VENDORS(ddp::nccl::Comm, ncclComm);
IS_VENDORS_NUMBER(ddp::nccl::Result, ncclResult_t);
IS_VENDORS_NUMBER(ddp::nccl::DataType, ncclDataType_t);
IS_VENDORS_NUMBER(ddp::nccl::RedOp, ncclRedOp_t);
IS_VENDORS(ddp::nccl::UniqueId, ncclUniqueId);
IS_VENDORS(ddp::nccl::Config, ncclConfig_t);

IS_VENDORS(ddp::cublaslt::Context, cublasLtContext);
IS_VENDORS(ddp::cublaslt::MatmulDesc, cublasLtMatmulDescOpaque_t);
IS_VENDORS(ddp::cublaslt::MatrixLayout, cublasLtMatrixLayoutOpaque_t);
IS_VENDORS(ddp::cublaslt::Preference, cublasLtMatmulPreferenceOpaque_t);
IS_VENDORS_NUMBER(ddp::cublaslt::Status, cublasStatus_t);
IS_VENDORS_NUMBER(ddp::cublaslt::DataType, cudaDataType);
IS_VENDORS_NUMBER(ddp::cublaslt::ComputeType, cublasComputeType_t);
IS_VENDORS_NUMBER(ddp::cublaslt::DescAttribute, cublasLtMatmulDescAttributes_t);
IS_VENDORS_NUMBER(ddp::cublaslt::PreferenceAttribute, cublasLtMatmulPreferenceAttributes_t);
IS_VENDORS(ddp::cublaslt::Algorithm, cublasLtMatmulAlgo_t);
IS_VENDORS(ddp::cublaslt::HeuristicResult, cublasLtMatmulHeuristicResult_t);

IS_VENDORS(ddp::cudnn::Handle, cudnnContext);
IS_VENDORS_NUMBER(ddp::cudnn::Status, cudnnStatus_t);
IS_VENDORS_NUMBER(ddp::cudnn::DataType, cudnnDataType_t);
IS_VENDORS_NUMBER(ddp::cudnn::DescriptorType, cudnnBackendDescriptorType_t);
IS_VENDORS_NUMBER(ddp::cudnn::Attribute, cudnnBackendAttributeName_t);
IS_VENDORS_NUMBER(ddp::cudnn::AttributeType, cudnnBackendAttributeType_t);

namespace nccl {

using namespace ddp::nccl;

SAME_NUMBER(Result::success, ncclSuccess);
SAME_NUMBER(Result::unhandled_cuda_error, ncclUnhandledCudaError);
SAME_NUMBER(Result::system_error, ncclSystemError);
SAME_NUMBER(Result::internal_error, ncclInternalError);
SAME_NUMBER(Result::invalid_argument, ncclInvalidArgument);
SAME_NUMBER(Result::invalid_usage, ncclInvalidUsage);
SAME_NUMBER(Result::remote_error, ncclRemoteError);
SAME_NUMBER(Result::in_progress, ncclInProgress);
SAME_NUMBER(DataType::int8, ncclInt8);
SAME_NUMBER(DataType::uint8, ncclUint8);
SAME_NUMBER(DataType::int32, ncclInt32);
SAME_NUMBER(DataType::int64, ncclInt64);
SAME_NUMBER(DataType::float32, ncclFloat32);
SAME_NUMBER(DataType::float64, ncclFloat64);
SAME_NUMBER(DataType::bfloat16, ncclBfloat16);
SAME_NUMBER(RedOp::sum, ncclSum);
SAME_NUMBER(RedOp::prod, ncclProd);
SAME_NUMBER(RedOp::max, ncclMax);
SAME_NUMBER(RedOp::min, ncclMin);
SAME_NUMBER(RedOp::avg, ncclAvg);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) &&
              alignof(UniqueId) == alignof(ncclUniqueId));

// Newer headers have more fields, which the library takes as unset by `size` and `version`.
constexpr Config kOurs;
constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(kOurs.magic == kTheirs.magic && kOurs.blocking == kTheirs.blocking);
static_assert(kOurs.version == NCCL_VERSION(2, 18, 0) && kOurs.version <= kTheirs.version);
static_assert(kOurs.net_name == kTheirs.netName);
SAME_PLACE(Config, size, ncclConfig_t, size);
SAME_PLACE(Config, magic, ncclConfig_t, magic);
SAME_PLACE(Config, version, ncclConfig_t, version);
SAME_PLACE(Config, blocking, ncclConfig_t, blocking);
SAME_PLACE(Config, cga_cluster_size, ncclConfig_t, cgaClusterSize);
SAME_PLACE(Config, min_ctas, ncclConfig_t, minCTAs);
SAME_PLACE(Config, max_ctas, ncclConfig_t, maxCTAs);
SAME_PLACE(Config, net_name, ncclConfig_t, netName);
SAME_PLACE(Config, split_share, ncclConfig_t, splitShare);
SAME_PLACE(Config, traffic_class, ncclConfig_t, trafficClass);

SAME_FUNCTION(NcclLibrary, get_version, ncclGetVersion);
SAME_FUNCTION(NcclLibrary, get_unique_id, ncclGetUniqueId);
SAME_FUNCTION(NcclLibrary, comm_init_rank_config, ncclCommInitRankConfig);
SAME_FUNCTION(NcclLibrary, comm_finalize, ncclCommFinalize);
SAME_FUNCTION(NcclLibrary, comm_destroy, ncclCommDestroy);
SAME_FUNCTION(NcclLibrary, comm_abort, ncclCommAbort);
SAME_FUNCTION(NcclLibrary, comm_get_async_error, ncclCommGetAsyncError);
SAME_FUNCTION(NcclLibrary, get_error_string, ncclGetErrorString);
SAME_FUNCTION(NcclLibrary, get_last_error, ncclGetLastError);
SAME_FUNCTION(NcclLibrary, all_reduce, ncclAllReduce);
SAME_FUNCTION(NcclLibrary, broadcast, ncclBroadcast);
SAME_FUNCTION(NcclLibrary, all_gather, ncclAllGather);
SAME_FUNCTION(NcclLibrary, reduce_scatter, ncclReduceScatter);
SAME_FUNCTION(NcclLibrary, send, ncclSend);
SAME_FUNCTION(NcclLibrary, recv, ncclRecv);
SAME_FUNCTION(NcclLibrary, group_start, ncclGroupStart);
SAME_FUNCTION(NcclLibrary, group_end, ncclGroupEnd);

}  // namespace nccl

namespace cublaslt {

using namespace ddp::cublaslt;

SAME_NUMBER(Status::success, CUBLAS_STATUS_SUCCESS);
SAME_NUMBER(Status::not_supported, CUBLAS_STATUS_NOT_SUPPORTED);
SAME_NUMBER(DataType::f32, CUDA_R_32F);
SAME_NUMBER(DataType::bf16, CUDA_R_16BF);
SAME_NUMBER(ComputeType::f32, CUBLAS_COMPUTE_32F);
SAME_NUMBER(Operation::none, CUBLAS_OP_N);
SAME_NUMBER(Operation::transpose, CUBLAS_OP_T);
SAME_NUMBER(DescAttribute::transpose_a, CUBLASLT_MATMUL_DESC_TRANSA);
SAME_NUMBER(DescAttribute::transpose_b, CUBLASLT_MATMUL_DESC_TRANSB);
SAME_NUMBER(DescAttribute::epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME_NUMBER(DescAttribute::bias_pointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME_NUMBER(DescAttribute::aux_pointer, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
SAME_NUMBER(DescAttribute::aux_stride, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
SAME_NUMBER(Epilogue::none, CUBLASLT_EPILOGUE_DEFAULT);
SAME_NUMBER(Epilogue::bias, CUBLASLT_EPILOGUE_BIAS);
SAME_NUMBER(Epilogue::gelu_aux_bias, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
SAME_NUMBER(Epilogue::gelu_slope, CUBLASLT_EPILOGUE_DGELU);
SAME_NUMBER(PreferenceAttribute::workspace_bytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME_NUMBER(PreferenceAttribute::alignment_a, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME_NUMBER(PreferenceAttribute::alignment_b, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME_NUMBER(PreferenceAttribute::alignment_c, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME_NUMBER(PreferenceAttribute::alignment_d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
// These go by their addresses, as attributes.
static_assert(sizeof(Operation) == sizeof(std::int32_t) &&
              sizeof(Epilogue) == sizeof(cublasLtEpilogue_t));
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
SAME_PLACE(HeuristicResult, algorithm, cublasLtMatmulHeuristicResult_t, algo);
SAME_PLACE(HeuristicResult, workspace_bytes, cublasLtMatmulHeuristicResult_t, workspaceSize);
SAME_PLACE(HeuristicResult, state, cublasLtMatmulHeuristicResult_t, state);
SAME_PLACE(HeuristicResult, waves, cublasLtMatmulHeuristicResult_t, wavesCount);

SAME_FUNCTION(CublasLtLibrary, create, cublasLtCreate);
SAME_FUNCTION(CublasLtLibrary, matmul_desc_create, cublasLtMatmulDescCreate);
SAME_FUNCTION(CublasLtLibrary, matmul_desc_set_attribute, cublasLtMatmulDescSetAttribute);
SAME_FUNCTION(CublasLtLibrary, matmul_desc_destroy, cublasLtMatmulDescDestroy);
SAME_FUNCTION(CublasLtLibrary, matrix_layout_create, cublasLtMatrixLayoutCreate);
SAME_FUNCTION(CublasLtLibrary, matrix_layout_destroy, cublasLtMatrixLayoutDestroy);
SAME_FUNCTION(CublasLtLibrary, preference_create, cublasLtMatmulPreferenceCreate);
SAME_FUNCTION(CublasLtLibrary, preference_set_attribute, cublasLtMatmulPreferenceSetAttribute);
SAME_FUNCTION(CublasLtLibrary, preference_destroy, cublasLtMatmulPreferenceDestroy);
SAME_FUNCTION(CublasLtLibrary, get_heuristic, cublasLtMatmulAlgoGetHeuristic);
SAME_FUNCTION(CublasLtLibrary, matmul, cublasLtMatmul);

}  // namespace cublaslt

namespace cudnn {

using namespace ddp::cudnn;

SAME_NUMBER(Status::success, CUDNN_STATUS_SUCCESS);
SAME_NUMBER(DataType::f32, CUDNN_DATA_FLOAT);
SAME_NUMBER(DataType::bf16, CUDNN_DATA_BFLOAT16);
SAME_NUMBER(ConvolutionMode::cross_correlation, CUDNN_CROSS_CORRELATION);
SAME_NUMBER(HeuristicMode::fallback, CUDNN_HEUR_MODE_FALLBACK);
SAME_NUMBER(HeuristicMode::a, CUDNN_HEUR_MODE_A);
SAME_NUMBER(NumericalNote::tensor_core, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
SAME_NUMBER(NumericalNote::down_convert_inputs, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
SAME_NUMBER(NumericalNote::nondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
static_assert(kNotesMax >= CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
SAME_NUMBER(DescriptorType::convolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
SAME_NUMBER(DescriptorType::engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
SAME_NUMBER(DescriptorType::engine_config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
SAME_NUMBER(DescriptorType::engine_heuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
SAME_NUMBER(DescriptorType::execution_plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
SAME_NUMBER(DescriptorType::convolution_forward,
            CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
SAME_NUMBER(DescriptorType::convolution_weights,
            CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
SAME_NUMBER(DescriptorType::convolution_data,
            CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
SAME_NUMBER(DescriptorType::operation_graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
SAME_NUMBER(DescriptorType::variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
SAME_NUMBER(DescriptorType::tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
SAME_NUMBER(AttributeType::handle, CUDNN_TYPE_HANDLE);
SAME_NUMBER(AttributeType::data_type, CUDNN_TYPE_DATA_TYPE);
SAME_NUMBER(AttributeType::int64, CUDNN_TYPE_INT64);
SAME_NUMBER(AttributeType::f32, CUDNN_TYPE_FLOAT);
SAME_NUMBER(AttributeType::pointer, CUDNN_TYPE_VOID_PTR);
SAME_NUMBER(AttributeType::convolution_mode, CUDNN_TYPE_CONVOLUTION_MODE);
SAME_NUMBER(AttributeType::heuristic_mode, CUDNN_TYPE_HEUR_MODE);
SAME_NUMBER(AttributeType::numerical_note, CUDNN_TYPE_NUMERICAL_NOTE);
SAME_NUMBER(AttributeType::descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
SAME_NUMBER(Attribute::convolution_comp_type, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
SAME_NUMBER(Attribute::convolution_conv_mode, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
SAME_NUMBER(Attribute::convolution_dilations, CUDNN_ATTR_CONVOLUTION_DILATIONS);
SAME_NUMBER(Attribute::convolution_filter_strides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
SAME_NUMBER(Attribute::convolution_post_paddings, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
SAME_NUMBER(Attribute::convolution_pre_paddings, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
SAME_NUMBER(Attribute::convolution_spatial_dims, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
SAME_NUMBER(Attribute::engineheur_mode, CUDNN_ATTR_ENGINEHEUR_MODE);
SAME_NUMBER(Attribute::engineheur_operation_graph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
SAME_NUMBER(Attribute::engineheur_results, CUDNN_ATTR_ENGINEHEUR_RESULTS);
SAME_NUMBER(Attribute::enginecfg_engine, CUDNN_ATTR_ENGINECFG_ENGINE);
SAME_NUMBER(Attribute::execution_plan_handle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
SAME_NUMBER(Attribute::execution_plan_engine_config, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
SAME_NUMBER(Attribute::execution_plan_workspace_size, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
SAME_NUMBER(Attribute::forward_alpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
SAME_NUMBER(Attribute::forward_beta, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
SAME_NUMBER(Attribute::forward_conv_desc, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
SAME_NUMBER(Attribute::forward_w, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
SAME_NUMBER(Attribute::forward_x, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
SAME_NUMBER(Attribute::forward_y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
SAME_NUMBER(Attribute::data_alpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
SAME_NUMBER(Attribute::data_beta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
SAME_NUMBER(Attribute::data_conv_desc, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
SAME_NUMBER(Attribute::data_w, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
SAME_NUMBER(Attribute::data_dx, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
SAME_NUMBER(Attribute::data_dy, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
SAME_NUMBER(Attribute::weights_alpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
SAME_NUMBER(Attribute::weights_beta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
SAME_NUMBER(Attribute::weights_conv_desc, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
SAME_NUMBER(Attribute::weights_dw, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
SAME_NUMBER(Attribute::weights_x, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
SAME_NUMBER(Attribute::weights_dy, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
SAME_NUMBER(Attribute::operationgraph_handle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
SAME_NUMBER(Attribute::operationgraph_ops, CUDNN_ATTR_OPERATIONGRAPH_OPS);
SAME_NUMBER(Attribute::tensor_byte_alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
SAME_NUMBER(Attribute::tensor_data_type, CUDNN_ATTR_TENSOR_DATA_TYPE);
SAME_NUMBER(Attribute::tensor_dimensions, CUDNN_ATTR_TENSOR_DIMENSIONS);
SAME_NUMBER(Attribute::tensor_strides, CUDNN_ATTR_TENSOR_STRIDES);
SAME_NUMBER(Attribute::tensor_unique_id, CUDNN_ATTR_TENSOR_UNIQUE_ID);
SAME_NUMBER(Attribute::variant_pack_unique_ids, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
SAME_NUMBER(Attribute::variant_pack_data_pointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
SAME_NUMBER(Attribute::variant_pack_workspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
SAME_NUMBER(Attribute::engine_global_index, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
SAME_NUMBER(Attribute::engine_numerical_note, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
// These go by their addresses, as attributes.
static_assert(sizeof(DataType) == sizeof(cudnnDataType_t) &&
              sizeof(ConvolutionMode) == sizeof(cudnnConvolutionMode_t) &&
              sizeof(HeuristicMode) == sizeof(cudnnBackendHeurMode_t) &&
              sizeof(NumericalNote) == sizeof(cudnnBackendNumericalNote_t));

SAME_FUNCTION(CudnnLibrary, get_version, cudnnGetVersion);
SAME_FUNCTION(CudnnLibrary, get_error_string, cudnnGetErrorString);
SAME_FUNCTION(CudnnLibrary, get_last_error_string, cudnnGetLastErrorString);
SAME_FUNCTION(CudnnLibrary, create, cudnnCreate);
SAME_FUNCTION(CudnnLibrary, create_descriptor, cudnnBackendCreateDescriptor);
SAME_FUNCTION(CudnnLibrary, destroy_descriptor, cudnnBackendDestroyDescriptor);
SAME_FUNCTION(CudnnLibrary, set_attribute, cudnnBackendSetAttribute);
SAME_FUNCTION(CudnnLibrary, get_attribute, cudnnBackendGetAttribute);
SAME_FUNCTION(CudnnLibrary, finalize, cudnnBackendFinalize);
SAME_FUNCTION(CudnnLibrary, execute, cudnnBackendExecute);

}  // namespace cudnn
}  // namespace
