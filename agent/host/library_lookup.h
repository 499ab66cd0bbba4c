// LoaderPath: where the dynamic loader would find a library, and which version that is by the name
// of its file. Nothing is loaded.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

class LoaderPath {
 public:
  /// `library_path` is LD_LIBRARY_PATH, `cache` the bytes of /etc/ld.so.cache (or none).
  LoaderPath(const std::string& library_path, std::string_view cache);

  /// "2.28.9" for "libnccl.so.2" when that is a link to libnccl.so.2.28.9; "there" when the file's
  /// own name tells no more than the library's; empty when there is no such library. A name with a
  /// slash is a path.
  [[nodiscard]] std::string version_of(const std::string& library) const;

 private:
  std::vector<std::string> folders_;
  std::map<std::string, std::string, std::less<>> cached_;
};

/// Pure. Library name -> path of the cache's entries (the first of each name, which the loader
/// takes); empty for bytes that are no cache.
std::map<std::string, std::string, std::less<>> parse_loader_cache(std::string_view bytes);

}  // namespace ddprun
