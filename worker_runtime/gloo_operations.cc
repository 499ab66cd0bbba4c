#include "worker_runtime/gloo_operations.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

namespace ddp {
namespace {

using Reduce = gloo::AllreduceOptions::Func;

/// c[i] = a[i] op b[i]; c may be a or b. avg sums; the division comes last.
template <class T>
Reduce reduction(ReduceOp op) {
  const auto each = [](auto combine) {
    return [combine](void* c, const void* a, const void* b, std::size_t count) {
      auto* out = static_cast<T*>(c);
      const auto* left = static_cast<const T*>(a);
      const auto* right = static_cast<const T*>(b);
      for (std::size_t i = 0; i < count; ++i) {
        out[i] = static_cast<T>(combine(left[i], right[i]));
      }
    };
  };
  switch (op) {
    case ReduceOp::min:
      return each([](T a, T b) { return std::min(a, b); });
    case ReduceOp::max:
      return each([](T a, T b) { return std::max(a, b); });
    case ReduceOp::product:
      return each([](T a, T b) { return a * b; });
    case ReduceOp::sum:
    case ReduceOp::avg:
      break;
  }
  return each([](T a, T b) { return a + b; });
}

/// Calls f with a null pointer of the C++ type of `dtype`.
template <class F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(static_cast<float*>(nullptr));
    case DType::f64:
      return f(static_cast<double*>(nullptr));
    case DType::i32:
      return f(static_cast<std::int32_t*>(nullptr));
    case DType::i64:
      return f(static_cast<std::int64_t*>(nullptr));
    case DType::u8:
      break;
  }
  return f(static_cast<std::uint8_t*>(nullptr));
}

Reduce reduction(DType dtype, ReduceOp op) {
  return with_type(
      dtype, [op](auto* type) { return reduction<std::remove_pointer_t<decltype(type)>>(op); });
}

void divide(const Tensor& tensor, int divisor) {
  with_type(tensor.dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for (T& value : tensor.values<T>()) {
      value = static_cast<T>(value / static_cast<T>(divisor));
    }
  });
}

// Gloo's options are templates over the element type only to learn its size: bytes do, except where
// elements are combined.
auto bytes_of(const Tensor& tensor) {
  return static_cast<std::uint8_t*>(tensor.raw());
}

template <class Options>
Options options_for(const Operation& operation, const std::shared_ptr<gloo::Context>& context,
                    std::chrono::milliseconds timeout) {
  Options options(context);
  options.setTag(static_cast<std::uint32_t>(operation.sequence));
  options.setTimeout(timeout);
  return options;
}

void all_reduce(const Operation& operation, const std::shared_ptr<gloo::Context>& context,
                std::chrono::milliseconds timeout) {
  auto options = options_for<gloo::AllreduceOptions>(operation, context, timeout);
  // A ring: each part is summed up by ranks in a fixed order and then handed on, so every rank has
  // the same bits.
  options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  const Tensor& tensor = operation.output;
  with_type(tensor.dtype(), [&](auto* type) {
    options.setOutput(static_cast<decltype(type)>(tensor.raw()), tensor.size());
  });
  options.setReduceFunction(reduction(tensor.dtype(), operation.op));
  gloo::allreduce(options);
  if (operation.op == ReduceOp::avg) {
    divide(tensor, context->size);
  }
}

/// Every rank sends each other one its part; then each adds up its own in rank order. As much
/// traffic as a ring, and results that do not depend on who came first.
void reduce_scatter(const Operation& operation, const std::shared_ptr<gloo::Context>& context,
                    std::chrono::milliseconds timeout) {
  const Tensor& result = operation.output;
  const Tensor parts =
      Tensor::empty({static_cast<std::int64_t>(operation.input.size())}, result.dtype());
  auto options = options_for<gloo::AlltoallOptions>(operation, context, timeout);
  options.setInput(bytes_of(operation.input), operation.input.size_bytes());
  options.setOutput(bytes_of(parts), parts.size_bytes());
  gloo::alltoall(options);
  result.copy_from(parts.view(0, result.size()));
  const Reduce reduce = reduction(result.dtype(), operation.op);
  for (int rank = 1; rank < context->size; ++rank) {
    const Tensor part = parts.view(static_cast<std::size_t>(rank) * result.size(), result.size());
    reduce(result.raw(), result.raw(), part.raw(), result.size());
  }
  if (operation.op == ReduceOp::avg) {
    divide(result, context->size);
  }
}

}  // namespace

void run_on_gloo(const Operation& operation, const std::shared_ptr<gloo::Context>& context,
                 std::chrono::milliseconds timeout) {
  const Tensor& output = operation.output;
  if (operation.kind != Operation::Kind::barrier && output.size() == 0) {
    return;  // the same on every rank: nothing to send
  }
  switch (operation.kind) {
    case Operation::Kind::all_reduce:
      return all_reduce(operation, context, timeout);
    case Operation::Kind::broadcast: {
      auto options = options_for<gloo::BroadcastOptions>(operation, context, timeout);
      options.setRoot(operation.peer);
      options.setOutput(bytes_of(output), output.size_bytes());
      return gloo::broadcast(options);
    }
    case Operation::Kind::all_gather: {
      auto options = options_for<gloo::AllgatherOptions>(operation, context, timeout);
      options.setInput(bytes_of(operation.input), operation.input.size_bytes());
      options.setOutput(bytes_of(output), output.size_bytes());
      return gloo::allgather(options);
    }
    case Operation::Kind::reduce_scatter:
      return reduce_scatter(operation, context, timeout);
    case Operation::Kind::barrier: {
      auto options = options_for<gloo::BarrierOptions>(operation, context, timeout);
      return gloo::barrier(options);
    }
    case Operation::Kind::send:
    case Operation::Kind::recv:
      break;  // messages are posted, not run
  }
}

bool is_gloo_timeout(const std::exception& error) {
  const std::string_view text = error.what();
  return text.find("Timed out") != std::string_view::npos ||
         text.find("timeout") != std::string_view::npos;
}

}  // namespace ddp
