#include "rendezvous/base/control_group.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// One v1 hierarchy may carry several controllers; both files list them as "cpu,cpuacct".
bool names(std::string_view comma_list, std::string_view one) {
  const auto parts = words_of(comma_list, ",");
  return std::find(parts.begin(), parts.end(), one) != parts.end();
}

/// Where one hierarchy is mounted, and which of its groups is seen at that place.
struct Mount {
  std::string point;
  std::string root;
};

/// mountinfo escapes blanks and backslashes as \040.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    const auto* const digits = text.data() + i + 1;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3) {
      plain += static_cast<char>(code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// `v1_controller` empty: the v2 hierarchy. The last line wins: it is mounted over the others.
std::optional<Mount> find_mount(std::string_view mountinfo, std::string_view v1_controller) {
  std::optional<Mount> found;
  for (const std::string_view line : words_of(mountinfo, "\n")) {
    const auto words = words_of(line, " ");
    // proc(5): optional fields of any number stand before a lone "-"; file system type, source and
    // options of the super block follow it.
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) {
      continue;
    }
    const bool wanted = v1_controller.empty()
                            ? dash[1] == "cgroup2"
                            : dash[1] == "cgroup" && names(dash[3], v1_controller);
    if (wanted) {
      found = Mount{unescaped(words[4]), unescaped(words[3])};
    }
  }
  return found;
}

/// The group's path in that hierarchy, from lines "ID:CONTROLLERS:PATH".
std::optional<std::string> find_group(std::string_view proc_cgroup, std::string_view controller) {
  for (const std::string_view line : words_of(proc_cgroup, "\n")) {
    const auto first = line.find(':');
    const auto second = line.find(':', first == std::string_view::npos ? first : first + 1);
    if (second == std::string_view::npos) {
      continue;
    }
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? controllers.empty() : names(controllers, controller)) {
      return std::string(line.substr(second + 1));
    }
  }
  return std::nullopt;
}

/// Directories from the group up to the mount point. A group outside of what is mounted (a
/// container that sees its host's path) is taken for the mount point itself.
std::vector<std::string> directories(const Mount& mount, const std::string& group) {
  std::string below = group;
  if (mount.root != "/") {
    const bool inside = below.compare(0, mount.root.size(), mount.root) == 0 &&
                        (below.size() == mount.root.size() || below[mount.root.size()] == '/');
    below = inside ? below.substr(mount.root.size()) : "";
  }
  // cgroup_namespaces(7): the kernel shows a group above the namespace's root as "/..". No
  // directory of it is visible here.
  if (below.find("..") != std::string::npos) {
    below.clear();
  }
  std::vector<std::string> all;
  while (!below.empty() && below != "/") {
    all.push_back(mount.point + below);
    below.resize(below.rfind('/'));
  }
  all.push_back(mount.point);
  return all;
}

}  // namespace

std::vector<std::string> control_group_directories(const FileReader& read,
                                                   const std::string& controller) {
  const auto groups = read("/proc/self/cgroup");
  const auto mounts = read("/proc/self/mountinfo");
  // A sandbox without /proc shows neither: the caller then goes on without limits and counters.
  if (!groups || !mounts) {
    return {};
  }
  const auto group = find_group(*groups, controller);
  const auto mount = find_mount(*mounts, controller);
  return group && mount ? directories(*mount, *group) : std::vector<std::string>();
}

}  // namespace ddprun
