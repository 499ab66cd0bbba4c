#include "trainer/layers/cuda/matmul.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "trainer/layers/cuda/cublaslt_library.h"
#include "trainer/layers/cuda/workspace.h"
#include "worker_runtime/cuda/cuda_check.h"

namespace ddp::gpu {
namespace {

using namespace cublaslt;

/// What NVIDIA's manual asks for on Hopper.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

/// cuBLASLt's own words for a status need cuBLAS, which is another library: the number must do.
void check(Status status, const char* what) {
  if (status != Status::success) {
    throw DeviceError(std::string("cuBLASLt: ") + what + " failed with status " +
                      std::to_string(static_cast<int>(status)));
  }
}

/// Owns what one of cuBLASLt's create functions has made.
template <class T>
class Owned {
 public:
  explicit Owned(Status (*destroy)(T*)) : destroy_(destroy) {}
  ~Owned() { destroy_(made_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T** place() { return &made_; }
  T* get() { return made_; }

 private:
  Status (*destroy_)(T*);
  T* made_ = nullptr;
};

/// The address's power of two, as far as algorithms tell alignments apart.
std::uint32_t alignment(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | 256U;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

/// cuBLASLt's matrices lie column by column. A matrix that lies row by row is its own transpose
/// there, and out^T = b^T a^T: so our b is its A and our a is its B.
class Request {
 public:
  explicit Request(const Matmul& product)
      : library_(cublaslt_library()),
        product_(product),
        desc_(library_.matmul_desc_destroy),
        a_(library_.matrix_layout_destroy),
        b_(library_.matrix_layout_destroy),
        out_(library_.matrix_layout_destroy) {
    // f32 as the type of computing: sums of bf16 products are floats, and floats are multiplied as
    // floats, not as tf32.
    check(library_.matmul_desc_create(desc_.place(), ComputeType::f32, DataType::f32),
          "cublasLtMatmulDescCreate");
    const auto turned = [](const MatmulFactor& factor) {
      return factor.transposed ? Operation::transpose : Operation::none;
    };
    set(DescAttribute::transpose_a, turned(product.b));
    set(DescAttribute::transpose_b, turned(product.a));
    set(DescAttribute::epilogue, product.epilogue);
    if (product.bias != nullptr) {
      set(DescAttribute::bias_pointer, product.bias);
    }
    // Where the values before GELU go, or come from.
    if (product.aux != nullptr) {
      set(DescAttribute::aux_pointer, product.aux);
      set(DescAttribute::aux_stride, static_cast<std::int64_t>(product.out_stride));
    }
    lay_out(a_, product.factors, product.n, product.k, product.b);
    lay_out(b_, product.factors, product.k, product.m, product.a);
    check(library_.matrix_layout_create(out_.place(), product.result, product.n, product.m,
                                        static_cast<std::int64_t>(product.out_stride)),
          "cublasLtMatrixLayoutCreate");
  }

  /// Nothing when there is no algorithm for it.
  std::optional<HeuristicResult> choose(Context* context) {
    Owned<Preference> preference(library_.preference_destroy);
    check(library_.preference_create(preference.place()), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](PreferenceAttribute attribute, auto value) {
      check(library_.preference_set_attribute(preference.get(), attribute, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(PreferenceAttribute::workspace_bytes, std::uint64_t{kWorkspaceBytes});
    // By default it takes algorithms for addresses that are multiples of 256.
    prefer(PreferenceAttribute::alignment_a, alignment(product_.b.data));
    prefer(PreferenceAttribute::alignment_b, alignment(product_.a.data));
    prefer(PreferenceAttribute::alignment_c, alignment(product_.out));
    prefer(PreferenceAttribute::alignment_d, alignment(product_.out));
    HeuristicResult result;
    int found = 0;
    // The first is the one that it thinks is the fastest. C and D are the same matrix.
    const Status status =
        library_.get_heuristic(context, desc_.get(), a_.get(), b_.get(), out_.get(), out_.get(),
                               preference.get(), 1, &result, &found);
    if (status != Status::not_supported) {
      check(status, "cublasLtMatmulAlgoGetHeuristic");
    }
    return status == Status::success && found > 0 ? std::optional(result) : std::nullopt;
  }

  void queue(Context* context, const HeuristicResult& choice, int device) {
    // On the host, which is the default of the pointer mode.
    const float one = 1;
    const float old = product_.add ? 1.0F : 0.0F;
    void* const memory = workspace(device, kWorkspaceBytes);
    check(library_.matmul(context, desc_.get(), &one, product_.b.data, a_.get(), product_.a.data,
                          b_.get(), &old, product_.out, out_.get(), product_.out, out_.get(),
                          &choice.algorithm, memory, kWorkspaceBytes, nullptr),
          "cublasLtMatmul");
  }

 private:
  template <class T>
  void set(DescAttribute attribute, const T& value) {
    check(library_.matmul_desc_set_attribute(desc_.get(), attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }

  /// `rows` and `columns` of the factor as cuBLASLt multiplies it; it lies the other way round when
  /// it is transposed.
  void lay_out(Owned<MatrixLayout>& layout, DataType type, std::size_t rows, std::size_t columns,
               const MatmulFactor& factor) {
    check(library_.matrix_layout_create(layout.place(), type, factor.transposed ? columns : rows,
                                        factor.transposed ? rows : columns,
                                        static_cast<std::int64_t>(factor.stride)),
          "cublasLtMatrixLayoutCreate");
  }

  const CublasLtLibrary& library_;
  const Matmul& product_;
  Owned<MatmulDesc> desc_;
  Owned<MatrixLayout> a_, b_, out_;
};

/// All that an algorithm was chosen for. To choose takes tens of microseconds; a model has some
/// dozens of products.
using Key = std::array<std::size_t, 16>;

Key key_of(const Matmul& p) {
  return {p.m,
          p.n,
          p.k,
          p.a.stride,
          p.b.stride,
          p.out_stride,
          static_cast<std::size_t>(p.a.transposed) * 2 + static_cast<std::size_t>(p.b.transposed),
          static_cast<std::size_t>(p.factors),
          static_cast<std::size_t>(p.result),
          static_cast<std::size_t>(p.epilogue),
          static_cast<std::size_t>(p.add),
          alignment(p.a.data),
          alignment(p.b.data),
          alignment(p.out),
          p.bias == nullptr ? 0 : alignment(p.bias),
          p.aux == nullptr ? 0 : alignment(p.aux)};
}

/// What cuBLASLt keeps of one device, for as long as the process lives: at its end there may be no
/// driver any more.
struct DeviceState {
  Context* context = nullptr;
  std::map<Key, std::optional<HeuristicResult>> choices;
};

DeviceState& state_of(int device) {
  static auto& states = *std::make_unique<std::map<int, DeviceState>>().release();
  DeviceState& state = states[device];
  if (state.context == nullptr) {
    check(cublaslt_library().create(&state.context), "cublasLtCreate");
  }
  return state;
}

}  // namespace

bool matmul(const Matmul& product, int device) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  // A context belongs to the device that is current when it is made.
  check_cuda(cudaSetDevice(device));
  DeviceState& state = state_of(device);
  Request request(product);
  // A refusal is kept as well: it would be the same each time.
  const auto [choice, is_new] = state.choices.try_emplace(key_of(product));
  if (is_new) {
    choice->second = request.choose(state.context);
  }
  if (!choice->second) {
    return false;
  }
  request.queue(state.context, *choice->second, device);
  return true;
}

}  // namespace ddp::gpu
