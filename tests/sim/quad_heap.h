// QuadHeap: a heap whose nodes have four children each. Tens of thousands of timers are few levels
// deep in it, and children lie beside each other in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace ddprun::sim {

/// The first is one that comes before all others, by Before()(a, b).
template <class Item, class Before>
class QuadHeap {
 public:
  [[nodiscard]] bool empty() const { return items_.empty(); }
  [[nodiscard]] const Item& front() const { return items_.front(); }
  /// All, in no order.
  [[nodiscard]] const std::vector<Item>& items() const { return items_; }

  void push(const Item& item) {
    std::size_t at = items_.size();
    items_.push_back(item);
    while (at > 0 && before_(item, items_[(at - 1) / 4])) {
      items_[at] = items_[(at - 1) / 4];
      at = (at - 1) / 4;
    }
    items_[at] = item;
  }
  Item pop() {
    const Item first = items_.front();
    items_.front() = items_.back();
    items_.pop_back();
    sink(0);
    return first;
  }
  /// One for which it is true; it looks at all.
  template <class Condition>
  Item take(Condition condition) {
    const auto found = std::find_if(items_.begin(), items_.end(), condition);
    const Item taken = *found;
    *found = items_.back();
    items_.pop_back();
    for (std::size_t at = items_.size() / 4 + 1; at-- > 0;) {
      sink(at);
    }
    return taken;
  }

 private:
  /// Below those that come before it.
  void sink(std::size_t at) {
    if (at >= items_.size()) {
      return;
    }
    const Item item = items_[at];
    for (std::size_t child = 4 * at + 1; child < items_.size(); child = 4 * at + 1) {
      const std::size_t end = std::min(child + 4, items_.size());
      std::size_t least = child;
      for (std::size_t other = child + 1; other < end; ++other) {
        least = before_(items_[other], items_[least]) ? other : least;
      }
      if (!before_(items_[least], item)) {
        break;
      }
      items_[at] = items_[least];
      at = least;
    }
    items_[at] = item;
  }

  std::vector<Item> items_;
  Before before_;
};

}  // namespace ddprun::sim
