#include "tests/standin/operations.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace ddp_standin {
namespace {

using ddp::nccl::DataType;
using ddp::nccl::RedOp;

/// into[i] = into[i] op from[i]
template <class T>
void add(T* into, const T* from, std::size_t count, RedOp op) {
  for (std::size_t i = 0; i < count; ++i) {
    switch (op) {
      case RedOp::sum:
      case RedOp::avg:
        into[i] = static_cast<T>(into[i] + from[i]);
        break;
      case RedOp::prod:
        into[i] = static_cast<T>(into[i] * from[i]);
        break;
      case RedOp::max:
        into[i] = std::max(into[i], from[i]);
        break;
      case RedOp::min:
        into[i] = std::min(into[i], from[i]);
        break;
    }
  }
}

template <class T>
struct Reducer {
  static bool run(Seat& seat, const void* in, void* out, std::size_t count, RedOp op, int size) {
    std::vector<T> result(count);
    const bool done = seat.exchange(in, count * sizeof(T), [&](int rank, const std::byte* theirs) {
      const T* values = reinterpret_cast<const T*>(theirs);
      if (rank == 0) {
        result.assign(values, values + count);
      } else {
        add(result.data(), values, count, op);
      }
    });
    if (done && out != nullptr) {
      for (std::size_t i = 0; op == RedOp::avg && i < count; ++i) {
        result[i] = static_cast<T>(result[i] / static_cast<T>(size));
      }
      std::memcpy(out, result.data(), count * sizeof(T));
    }
    return done;
  }
};

/// One piece; `out` may be null: then this rank only takes part.
bool reduce_piece(Seat& seat, const Values& v, RedOp op, int size) {
  switch (v.type) {
    case DataType::float32:
      return Reducer<float>::run(seat, v.in, v.out, v.count, op, size);
    case DataType::float64:
      return Reducer<double>::run(seat, v.in, v.out, v.count, op, size);
    case DataType::int32:
      return Reducer<std::int32_t>::run(seat, v.in, v.out, v.count, op, size);
    case DataType::int64:
      return Reducer<std::int64_t>::run(seat, v.in, v.out, v.count, op, size);
    case DataType::bfloat16:  // no test of an error path reduces them
      std::fputs("the stand-in reduces no bfloat16\n", stderr);
      std::abort();
    case DataType::int8:
    case DataType::uint8:
      break;
  }
  return Reducer<std::uint8_t>::run(seat, v.in, v.out, v.count, op, size);
}

/// Calls `move` with each piece that fits into a part of the board. A null pointer stays null.
bool in_pieces(const Values& v,
               const std::function<bool(const Values& piece, std::size_t at)>& move) {
  const std::size_t size = size_of(v.type);
  for (std::size_t at = 0; at < v.count;) {
    const std::size_t count = std::min(v.count - at, kPieceMax / size);
    const Values piece{static_cast<const std::byte*>(v.in) + at * size,
                       v.out == nullptr ? nullptr : static_cast<std::byte*>(v.out) + at * size,
                       count, v.type};
    if (!move(piece, at)) {
      return false;
    }
    at += count;
  }
  return true;
}

}  // namespace

std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::float32:
    case DataType::int32:
      return 4;
    case DataType::float64:
    case DataType::int64:
      return 8;
    case DataType::bfloat16:
      return 2;
    case DataType::int8:
    case DataType::uint8:
      break;
  }
  return 1;
}

bool all_reduce(Seat& seat, const Values& values, RedOp op, int size) {
  return in_pieces(values, [&](const Values& piece, std::size_t) {
    return reduce_piece(seat, piece, op, size);
  });
}

bool broadcast(Seat& seat, const Values& values, int root) {
  return in_pieces(values, [&](const Values& piece, std::size_t) {
    const std::size_t bytes = piece.count * size_of(piece.type);
    return seat.exchange(piece.in, bytes, [&](int rank, const std::byte* theirs) {
      if (rank == root) {
        std::memcpy(piece.out, theirs, bytes);
      }
    });
  });
}

bool all_gather(Seat& seat, const Values& values) {
  const std::size_t size = size_of(values.type);
  const Values mine{values.in, nullptr, values.count, values.type};
  return in_pieces(mine, [&](const Values& piece, std::size_t at) {
    const std::size_t bytes = piece.count * size;
    return seat.exchange(piece.in, bytes, [&](int rank, const std::byte* theirs) {
      const std::size_t place = static_cast<std::size_t>(rank) * values.count + at;
      std::memcpy(static_cast<std::byte*>(values.out) + place * size, theirs, bytes);
    });
  });
}

bool reduce_scatter(Seat& seat, const Values& values, RedOp op, int rank, int size) {
  for (int part = 0; part < size; ++part) {
    const std::size_t place = static_cast<std::size_t>(part) * values.count * size_of(values.type);
    const Values one{static_cast<const std::byte*>(values.in) + place,
                     part == rank ? values.out : nullptr, values.count, values.type};
    if (!all_reduce(seat, one, op, size)) {
      return false;
    }
  }
  return true;
}

bool send(Seat& seat, const Values& values, int to) {
  return in_pieces(values, [&](const Values& piece, std::size_t) {
    return seat.post(piece.in, piece.count * size_of(piece.type), to);
  });
}

bool receive(Seat& seat, const Values& values, int from) {
  return in_pieces({values.out, values.out, values.count, values.type},
                   [&](const Values& piece, std::size_t) {
                     return seat.take(piece.out, piece.count * size_of(piece.type), from);
                   });
}

}  // namespace ddp_standin
