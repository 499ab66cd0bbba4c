#include "agent/host/library_lookup.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// The format since glibc 2.2: a header, entries, texts; offsets count from the header.
constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
constexpr std::size_t kHeaderBytes = 48;
constexpr std::size_t kCountAt = 20;
constexpr std::size_t kEntryBytes = 24;
constexpr std::size_t kNameAt = 4;
constexpr std::size_t kPathAt = 8;
/// The libraries that matter here.
constexpr std::string_view kWanted[] = {"libnccl.so", "libcudart.so", "libcuda.so"};

/// 0 beyond the end: the cache is a file that may have been cut short.
std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  if (at + sizeof value <= bytes.size()) {
    std::memcpy(&value, bytes.data() + at, sizeof value);
  }
  return value;
}

std::string_view text_at(std::string_view bytes, std::size_t at) {
  if (at >= bytes.size()) {
    return {};
  }
  const std::string_view rest = bytes.substr(at);
  return rest.substr(0, std::min(rest.find('\0'), rest.size()));
}

}  // namespace

std::map<std::string, std::string, std::less<>> parse_loader_cache(std::string_view bytes) {
  std::map<std::string, std::string, std::less<>> found;
  // Caches for both formats have the old one first.
  const auto header = bytes.find(kMagic);
  if (header == bytes.npos) {
    return found;
  }
  bytes.remove_prefix(header);
  // From the file: the loop ends with the bytes, whatever this number is.
  const std::size_t count = number_at(bytes, kCountAt);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t entry = kHeaderBytes + i * kEntryBytes;
    if (entry + kEntryBytes > bytes.size()) {
      break;
    }
    const std::string_view name = text_at(bytes, number_at(bytes, entry + kNameAt));
    if (std::any_of(std::begin(kWanted), std::end(kWanted),
                    [name](std::string_view wanted) { return name.starts_with(wanted); })) {
      found.emplace(name, text_at(bytes, number_at(bytes, entry + kPathAt)));
    }
  }
  return found;
}

LoaderPath::LoaderPath(const std::string& library_path, std::string_view cache)
    : cached_(parse_loader_cache(cache)) {
  // ld.so(8): colons and semicolons separate the folders of LD_LIBRARY_PATH.
  for (std::size_t begin = 0; begin < library_path.size();) {
    const std::size_t end = std::min(library_path.find_first_of(":;", begin), library_path.size());
    folders_.push_back(library_path.substr(begin, end - begin));
    begin = end + 1;
  }
}

std::string LoaderPath::version_of(const std::string& library) const {
  // The order of ld.so(8): LD_LIBRARY_PATH, the cache, the default folders. A RUNPATH in the
  // program is not looked at.
  std::vector<fs::path> places;
  if (library.find('/') != std::string::npos) {
    places.emplace_back(library);
  } else {
    for (const std::string& folder : folders_) {
      places.push_back(fs::path(folder) / library);
    }
    if (const auto cached = cached_.find(library); cached != cached_.end()) {
      places.emplace_back(cached->second);
    }
    for (const char* folder : {"/lib", "/usr/lib", "/lib64", "/usr/lib64"}) {
      places.push_back(fs::path(folder) / library);
    }
  }
  for (const fs::path& place : places) {
    std::error_code error;
    // The name of the library is a link to its file, whose name has the whole version.
    const std::string file = fs::canonical(place, error).filename();
    if (error) {
      continue;
    }
    constexpr std::string_view kSuffix = ".so.";
    const auto at = file.find(kSuffix);
    const std::string version = at == file.npos ? "" : file.substr(at + kSuffix.size());
    // libcudart.so.13 may be the file itself: its name tells the major version alone.
    return version.empty() ? "there" : version;
  }
  return {};
}

}  // namespace ddprun
