#include "trainer/layers/cuda/convolution.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "trainer/layers/cuda/cudnn_descriptor.h"
#include "trainer/layers/cuda/cudnn_library.h"
#include "worker_runtime/cuda/cuda_check.h"

namespace ddp::gpu {
namespace {

using namespace cudnn;

/// Names of the three arrays in a graph.
constexpr std::int64_t kX = 1, kW = 2, kY = 3;
/// Our arrays begin at multiples of 256, and what is read at once are 16 bytes.
constexpr std::int64_t kArrayAlignment = 16;

/// (first, second, height, width) whose channels, the second, are neighbours in memory.
BackendDescriptor tensor(std::int64_t id, DataType type, const std::array<std::int64_t, 4>& sizes) {
  const std::array<std::int64_t, 4> strides = {sizes[1] * sizes[2] * sizes[3], 1,
                                               sizes[1] * sizes[3], sizes[1]};
  BackendDescriptor made(DescriptorType::tensor);
  made.set(Attribute::tensor_unique_id, AttributeType::int64, id)
      .set(Attribute::tensor_data_type, AttributeType::data_type, type)
      .set(Attribute::tensor_byte_alignment, AttributeType::int64, kArrayAlignment)
      .set(Attribute::tensor_dimensions, AttributeType::int64, sizes)
      .set(Attribute::tensor_strides, AttributeType::int64, strides)
      .finalize();
  return made;
}

/// Two dimensions, no dilation; sums in f32, whatever the factors are.
BackendDescriptor convolution_of(const Conv2dShape& shape) {
  using Pair = std::array<std::int64_t, 2>;
  const Pair padding = {shape.padding, shape.padding};
  BackendDescriptor made(DescriptorType::convolution);
  made.set(Attribute::convolution_comp_type, AttributeType::data_type, DataType::f32)
      // What neural networks call a convolution: the kernel is not turned round.
      .set(Attribute::convolution_conv_mode, AttributeType::convolution_mode,
           ConvolutionMode::cross_correlation)
      .set(Attribute::convolution_spatial_dims, AttributeType::int64, std::int64_t{2})
      .set(Attribute::convolution_dilations, AttributeType::int64, Pair{1, 1})
      .set(Attribute::convolution_filter_strides, AttributeType::int64,
           Pair{shape.stride, shape.stride})
      .set(Attribute::convolution_pre_paddings, AttributeType::int64, padding)
      .set(Attribute::convolution_post_paddings, AttributeType::int64, padding)
      .finalize();
  return made;
}

/// The attributes of one kind of operation.
struct OperationNames {
  DescriptorType type;
  Attribute x, w, y, convolution, alpha, beta;
};

/// The three operations have the same parts, each under attributes of its own; the gradients'
/// results stand where the forward pass has its input or its weights.
OperationNames names_of(ConvolutionPart part) {
  using enum Attribute;
  switch (part) {
    case ConvolutionPart::data:
      return {DescriptorType::convolution_data,
              data_dx,
              data_w,
              data_dy,
              data_conv_desc,
              data_alpha,
              data_beta};
    case ConvolutionPart::weights:
      return {DescriptorType::convolution_weights,
              weights_x,
              weights_dw,
              weights_dy,
              weights_conv_desc,
              weights_alpha,
              weights_beta};
    case ConvolutionPart::forward:
      break;
  }
  return {DescriptorType::convolution_forward,
          forward_x,
          forward_w,
          forward_y,
          forward_conv_desc,
          forward_alpha,
          forward_beta};
}

/// The graph of this one operation, and what it is made of, which lives as long as the plans that
/// are made of it: cuDNN does not say that it keeps copies.
struct Graph {
  BackendDescriptor x, w, y, convolution, operation, graph;
};

Graph graph_of(const Convolution& c, Handle* context) {
  const Conv2dShape& s = c.shape;
  const bool weights = c.part == ConvolutionPart::weights;
  const auto names = names_of(c.part);
  Graph made{tensor(kX, c.type, {c.batch, s.in_channels, s.height, s.width}),
             tensor(kW, weights ? c.weights_type : c.type,
                    {s.out_channels, s.in_channels, s.kernel, s.kernel}),
             tensor(kY, c.type, {c.batch, s.out_channels, s.out_height(), s.out_width()}),
             convolution_of(s),
             BackendDescriptor(names.type),
             BackendDescriptor(DescriptorType::operation_graph)};
  // result = 1 convolution + 0 result
  made.operation.set(names.convolution, made.convolution)
      .set(names.x, made.x)
      .set(names.w, made.w)
      .set(names.y, made.y)
      .set(names.alpha, AttributeType::f32, 1.0F)
      .set(names.beta, AttributeType::f32, 0.0F)
      .finalize();
  made.graph.set(Attribute::operationgraph_handle, AttributeType::handle, context)
      .set(Attribute::operationgraph_ops, made.operation)
      .finalize();
  return made;
}

/// What cuDNN's heuristics offer, the one first that they think is the fastest.
std::vector<BackendDescriptor> offers(const BackendDescriptor& graph, HeuristicMode mode) {
  BackendDescriptor heuristic(DescriptorType::engine_heuristic);
  heuristic.set(Attribute::engineheur_operation_graph, graph)
      .set(Attribute::engineheur_mode, AttributeType::heuristic_mode, mode);
  std::vector<BackendDescriptor> configs;
  if (heuristic.try_finalize() != Status::success) {
    return configs;  // it knows nothing of such a graph: the other mode may
  }
  const auto count = heuristic.get<Descriptor>(Attribute::engineheur_results,
                                               AttributeType::descriptor, nullptr, 0);
  // cuDNN fills descriptors that its caller has made.
  std::vector<Descriptor> places;
  for (std::int64_t i = 0; i < count; ++i) {
    places.push_back(configs.emplace_back(DescriptorType::engine_config).get());
  }
  const auto found =
      heuristic.get(Attribute::engineheur_results, AttributeType::descriptor, places.data(), count);
  while (static_cast<std::int64_t>(configs.size()) > found) {
    configs.pop_back();
  }
  return configs;
}

/// What must not be said of an engine. Equal inputs are to give equal bits; and floats are there to
/// be compared with, so they are multiplied as floats, while tensor cores would round them to TF32.
bool rules_out(NumericalNote note, DataType type) {
  return note == NumericalNote::nondeterministic ||
         (type == DataType::f32 &&
          (note == NumericalNote::tensor_core || note == NumericalNote::down_convert_inputs));
}

bool is_exact(const BackendDescriptor& config, DataType type) {
  // Its notes are the engine's, and not those of the configuration.
  const BackendDescriptor engine(DescriptorType::engine);
  Descriptor place = engine.get();
  config.get(Attribute::enginecfg_engine, AttributeType::descriptor, &place, 1);
  std::array<NumericalNote, kNotesMax> notes{};
  const auto count = engine.get(Attribute::engine_numerical_note, AttributeType::numerical_note,
                                notes.data(), kNotesMax);
  return std::none_of(notes.begin(), notes.begin() + std::min(count, kNotesMax),
                      [type](NumericalNote note) { return rules_out(note, type); });
}

/// What convolves, or why nothing does.
struct Choice {
  std::unique_ptr<Graph> graph;
  std::vector<BackendDescriptor> parts;  ///< the engine's configuration, and the plan behind it
  std::size_t workspace_bytes = 0;
  std::string refusal;

  [[nodiscard]] bool found() const { return !parts.empty(); }
  [[nodiscard]] Descriptor plan() const { return parts.back().get(); }
};

/// The plan of this configuration; false where it fits neither the device nor us.
bool take(Choice& choice, BackendDescriptor config, const Convolution& convolution,
          Handle* context) {
  if (!is_exact(config, convolution.type)) {
    return false;
  }
  BackendDescriptor plan(DescriptorType::execution_plan);
  plan.set(Attribute::execution_plan_handle, AttributeType::handle, context)
      .set(Attribute::execution_plan_engine_config, config);
  const Status status = plan.try_finalize();
  if (status != Status::success) {
    choice.refusal = words_of(status);
    return false;
  }
  std::int64_t bytes = 0;
  plan.get(Attribute::execution_plan_workspace_size, AttributeType::int64, &bytes, 1);
  if (static_cast<std::size_t>(bytes) > kConvolutionWorkspaceMax) {
    return false;
  }
  choice.workspace_bytes = static_cast<std::size_t>(bytes);
  choice.parts.push_back(std::move(config));
  choice.parts.push_back(std::move(plan));
  return true;
}

/// The first of the heuristics' that will do. Nothing is measured: what is chosen decides about
/// bits, and has to be the same in every run. So a failure that is no refusal (there was no memory)
/// ends the attempt: a slower engine would go on, to other bits.
Choice choose(const Convolution& convolution, Handle* context) {
  Choice choice;
  const bool mixed =
      convolution.part == ConvolutionPart::weights && convolution.weights_type != convolution.type;
  try {
    choice.graph = std::make_unique<Graph>(graph_of(convolution, context));
    for (const auto mode : {HeuristicMode::a, HeuristicMode::fallback}) {
      if (mixed && mode == HeuristicMode::fallback) {
        break;  // slow; with equal types there is a fast one
      }
      for (BackendDescriptor& config : offers(choice.graph->graph, mode)) {
        if (take(choice, std::move(config), convolution, context)) {
          return choice;
        }
      }
    }
  } catch (const CudnnRefusal& problem) {
    choice.refusal = problem.what();
  }
  return choice;
}

/// All that an engine was chosen for. To choose takes milliseconds.
using Key = std::array<std::int64_t, 11>;

/// Addresses are no part of it: all arrays are aligned as the tensors above promise.
Key key_of(const Convolution& c) {
  const Conv2dShape& s = c.shape;
  return {c.batch,
          s.in_channels,
          s.out_channels,
          s.height,
          s.width,
          s.kernel,
          s.stride,
          s.padding,
          static_cast<std::int64_t>(c.part),
          static_cast<std::int64_t>(c.type),
          static_cast<std::int64_t>(c.weights_type)};
}

/// What cuDNN keeps of one device, for as long as the process lives: at its end there may be no
/// driver any more.
struct CudnnState {
  Handle* context = nullptr;
  std::map<Key, Choice> choices;
};

/// With the lock that the callers below hold.
CudnnState& cudnn_state(int device) {
  static auto& states = *std::make_unique<std::map<int, CudnnState>>().release();
  // A context belongs to the device that is current when it is made.
  check_cuda(cudaSetDevice(device));
  CudnnState& state = states[device];
  if (state.context == nullptr) {
    check_cudnn(cudnn_library().create(&state.context), "cudnnCreate");
  }
  return state;
}

/// Plans that are kept of one device. A ResNet-50 has about 90 for each size of a batch; sizes
/// change with --balance, and each plan holds some memory of the host, and a kernel's code.
constexpr std::size_t kChoicesMax = 1024;

const Choice& choice_of(const Convolution& convolution, CudnnState& state) {
  const auto key = key_of(convolution);
  if (const auto found = state.choices.find(key); found != state.choices.end()) {
    return found->second;
  }
  if (state.choices.size() >= kChoicesMax) {
    // What is in use comes back at once. A plan may own what a queued kernel still needs.
    check_cuda(cudaDeviceSynchronize());
    state.choices.clear();
  }
  // A refusal is kept as well: it would be the same each time.
  return state.choices.emplace(key, choose(convolution, state.context)).first->second;
}

/// One for all devices: a context is no more than one thread's at a time, and a training has one.
std::mutex& cudnn_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

void require_convolutions(int device) {
  const std::lock_guard lock(cudnn_mutex());
  (void)cudnn_state(device);
}

bool has_convolution(const Convolution& convolution, int device) {
  const std::lock_guard lock(cudnn_mutex());
  return choice_of(convolution, cudnn_state(device)).found();
}

std::size_t convolution_workspace(const Convolution& convolution, int device) {
  const std::lock_guard lock(cudnn_mutex());
  return choice_of(convolution, cudnn_state(device)).workspace_bytes;
}

void convolve(const Convolution& convolution, const ConvolutionArrays& arrays, void* memory,
              int device) {
  const std::lock_guard lock(cudnn_mutex());
  CudnnState& state = cudnn_state(device);
  const Choice& choice = choice_of(convolution, state);
  if (!choice.found()) {
    throw DoNotRetry("cuDNN " + std::to_string(cudnn_library().get_version()) +
                     " has no engine whose results have the same bits each time for a " +
                     text_of(convolution) +
                     (choice.refusal.empty() ? "" : "; it says: " + choice.refusal));
  }
  // Made anew each time, which takes microseconds: cuDNN lets no finalized descriptor be changed.
  BackendDescriptor pack(DescriptorType::variant_pack);
  pack.set(Attribute::variant_pack_unique_ids, AttributeType::int64,
           std::array<std::int64_t, 3>{kX, kW, kY})
      .set(Attribute::variant_pack_data_pointers, AttributeType::pointer,
           std::array<const void*, 3>{arrays.x, arrays.w, arrays.y})
      .set(Attribute::variant_pack_workspace, AttributeType::pointer, memory)
      .finalize();
  check_cudnn(cudnn_library().execute(state.context, choice.plan(), pack.get()),
              "a " + text_of(convolution));
}

/// All that tells one convolution from another: it stands in messages that somebody sends us.
std::string text_of(const Convolution& c) {
  const Conv2dShape& s = c.shape;
  const auto pair = [](std::int64_t first, std::int64_t second) {
    return std::to_string(first) + " x " + std::to_string(second);
  };
  const char* of = c.part == ConvolutionPart::forward ? "convolution"
                   : c.part == ConvolutionPart::data  ? "convolution's gradient by its input"
                                                      : "convolution's gradient by its weights";
  return pair(s.kernel, s.kernel) + " " + of + " from " + std::to_string(s.in_channels) + " to " +
         std::to_string(s.out_channels) + " channels, stride " + std::to_string(s.stride) +
         ", of " + std::to_string(c.batch) + " images of " + pair(s.height, s.width) +
         (c.type == DataType::bf16 ? " in bf16" : " in f32");
}

}  // namespace ddp::gpu
