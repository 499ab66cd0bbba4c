// TensorList: tensors that one launch works through. A model has some hundred, most of which take a
// GPU less time than a launch does.
#pragma once

#include "trainer/layers/cuda/block.cuh"

namespace ddp::gpu {

/// Item: what is done to one tensor; its field `count` says of how many elements. Blocks take them
/// one tensor after the other, each block so many elements and at least one block each. The list
/// travels as a kernel's parameter, of which there are 4 KiB in all.
template <class Item>
struct TensorList {
  static constexpr std::size_t kMost = (4096 - 64) / (sizeof(Item) + sizeof(unsigned));
  Item items[kMost];
  unsigned end_block[kMost];  ///< of each: the first block that is not its own
  unsigned tensors = 0;

  __device__ unsigned first_block(unsigned tensor) const {
    return tensor == 0 ? 0 : end_block[tensor - 1];
  }
  /// Of this block.
  __device__ unsigned tensor() const {
    unsigned first = 0;
    for (unsigned last = tensors - 1; first < last;) {
      const unsigned middle = (first + last) / 2;
      if (blockIdx.x < end_block[middle]) {
        last = middle;
      } else {
        first = middle + 1;
      }
    }
    return first;
  }
};

/// Calls queue(list, blocks) for lists of all `count` items, in their order.
template <class Item, class Queue>
void for_each_list(const Item* items, std::size_t count, std::size_t elements_per_block,
                   const Queue& queue) {
  static_assert(sizeof(TensorList<Item>) <= 4096 - 2 * sizeof(void*));  // beside it: two pointers
  for (std::size_t next = 0; next < count;) {
    TensorList<Item> list;
    unsigned blocks = 0;
    for (; next < count && list.tensors < TensorList<Item>::kMost; ++next) {
      blocks += std::max(1U, blocks_of(items[next].count, elements_per_block));
      list.items[list.tensors] = items[next];
      list.end_block[list.tensors] = blocks;
      ++list.tensors;
    }
    queue(list, blocks);
  }
}

}  // namespace ddp::gpu
