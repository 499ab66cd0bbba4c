#include "agent/host/visible_devices.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// strtoul as the driver uses it: what follows the digits is not looked at.
std::optional<std::size_t> index_of(std::string_view entry, std::size_t devices) {
  if (!entry.empty() && entry.front() == '+') {
    entry.remove_prefix(1);
  }
  std::size_t index = 0;
  const auto parsed = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  if (parsed.ec != std::errc() || index >= devices) {
    return std::nullopt;
  }
  return index;
}

std::optional<std::size_t> named(std::string_view entry, const std::vector<std::string>& uuids) {
  DDP_CHECK(entry.starts_with("GPU-"), "an empty or foreign entry names no device");
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < uuids.size(); ++i) {
    if (uuids[i].compare(0, entry.size(), entry) == 0) {
      // The beginning of two UUIDs is ambiguous, and the driver takes neither.
      if (found) {
        return std::nullopt;
      }
      found = i;
    }
  }
  return found;
}

/// No names are known: take the user's word, as far as there are GPUs.
VisibleDevices by_distinct_names(const std::vector<std::string_view>& entries,
                                 std::size_t devices) {
  std::vector<std::string_view> seen;
  for (const std::string_view entry : entries) {
    if (std::find(seen.begin(), seen.end(), entry) != seen.end()) {
      return {0, std::string(entry)};
    }
    if (!entry.starts_with("GPU-") || seen.size() == devices) {
      return {static_cast<int>(seen.size()), std::string(entry)};
    }
    seen.push_back(entry);
  }
  DDP_CHECK(seen.size() <= devices, "no more names count than there are devices");
  return {static_cast<int>(seen.size()), ""};
}

}  // namespace

VisibleDevices visible_devices(std::string_view list, const std::vector<std::string>& uuids) {
  const auto entries = parts_of(list, ',');
  DDP_CHECK(!entries.empty(), "even an empty list has one entry, which names nothing");
  if (entries.front().empty()) {
    return {0, ""};
  }
  // Of the slices that MIG makes a process sees one, whatever else its list names.
  if (entries.front().starts_with("MIG-")) {
    return {uuids.empty() ? 0 : 1, ""};
  }
  // The first entry decides: a list has numbers or names.
  const bool by_name = entries.front().starts_with("GPU-");
  const bool names_known =
      std::any_of(uuids.begin(), uuids.end(), [](const auto& uuid) { return !uuid.empty(); });
  if (by_name && !names_known) {
    return by_distinct_names(entries, uuids.size());
  }
  std::vector<std::size_t> visible;
  for (const std::string_view entry : entries) {
    std::optional<std::size_t> device;
    if (!by_name) {
      device = index_of(entry, uuids.size());
    } else if (entry.starts_with("GPU-")) {
      device = named(entry, uuids);
    }
    // The driver stops at the first bad entry; those before it stay visible.
    if (!device) {
      return {static_cast<int>(visible.size()), std::string(entry)};
    }
    // One device twice hides all of them; torch.cuda._parse_visible_devices returns an empty list,
    // too.
    if (std::find(visible.begin(), visible.end(), *device) != visible.end()) {
      return {0, std::string(entry)};
    }
    visible.push_back(*device);
  }
  DDP_CHECK(visible.size() <= uuids.size(), "no more devices are visible than there are");
  return {static_cast<int>(visible.size()), ""};
}

}  // namespace ddprun
