#include "rendezvous/membership/rendezvous_status.h"

#include <algorithm>
#include <string_view>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/rank_order.h"

namespace ddprun {
namespace {

/// A number of more digits is a name, not a count.
constexpr std::size_t kNumberDigitsMax = 9;

/// "n", 7 and two digits of "n07"; a name without a number stands for itself.
struct Numbered {
  std::string_view stem;
  long value = -1;
  std::size_t digits = 0;
  bool padded = false;
};

/// The number at the end is what schedulers and clouds count up in names of hosts.
Numbered split(std::string_view name) {
  std::size_t digits = 0;
  while (digits < name.size() && name[name.size() - 1 - digits] >= '0' &&
         name[name.size() - 1 - digits] <= '9') {
    ++digits;
  }
  const std::string_view number = name.substr(name.size() - digits);
  DDP_CHECK(number.size() == digits, "the digits are the end of the name");
  if (digits == 0 || digits > kNumberDigitsMax) {
    return {name};
  }
  return {name.substr(0, name.size() - digits), std::stol(std::string(number)), digits,
          digits > 1 && number.front() == '0'};
}

/// n9 and n10, n09 and n10; but not n09 and n010.
bool follows(const Numbered& before, const Numbered& after) {
  return before.value >= 0 && after.value == before.value + 1 && after.stem == before.stem &&
         (before.digits == after.digits || (!before.padded && !after.padded));
}

}  // namespace

/// A job of ten thousand nodes has few runs of names, so the text stays short where all are here;
/// and where some are missing, the gaps show which.
std::string fold_names(std::vector<std::string> names, std::size_t bytes_max) {
  std::sort(names.begin(), names.end(),
            [](const auto& a, const auto& b) { return natural_compare(a, b) < 0; });
  std::string text;
  for (std::size_t first = 0; first < names.size();) {
    std::size_t last = first;
    while (last + 1 < names.size() && follows(split(names[last]), split(names[last + 1]))) {
      ++last;
    }
    std::string piece = names[first];
    DDP_CHECK(last < names.size(), "a run ends within the names");
    if (last == first + 1) {
      piece += ", " + names[last];
    } else if (last > first) {
      piece += "-" + names[last];
    }
    if (text.size() + piece.size() + 2 > bytes_max) {
      return text + (text.empty() ? "" : " and ") + std::to_string(names.size() - first) +
             (text.empty() ? " nodes" : " more");
    }
    text += (text.empty() ? "" : ", ") + piece;
    first = last + 1;
  }
  return text;
}

}  // namespace ddprun
