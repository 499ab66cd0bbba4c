#include "agent/host/environment_facts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "agent/host/compared_variables.h"
#include "agent/host/library_lookup.h"
#include "agent/host/python_installation.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/file_text.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

/// Of a longer program the size, the first and the last half of this many bytes are hashed. An
/// executable has its build id at its beginning, so another build is another hash all the same.
constexpr std::size_t kProgramBytesMax = 16UL * 1024 * 1024;
/// Of an interpreter, and of ddprun: the build id is what tells.
constexpr std::size_t kBuildBytesMax = 64UL * 1024;
constexpr std::size_t kPieceBytes = 256UL * 1024;

/// 48 bits of a hash of the file's content; empty when it cannot be read.
std::string content_id(const std::string& path, std::size_t bytes_max) {
  // O_NONBLOCK: to open a FIFO that stands in the program's place would wait for its writer.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return {};
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  XXH3_state_t state;
  // Two long files that differ only in the middle still have different hashes if their sizes
  // differ.
  XXH3_64bits_reset_withSeed(&state, size);
  std::string piece(std::min(kPieceBytes, size + 1), '\0');
  const std::size_t half = bytes_max / 2;
  std::size_t at = 0;
  while (at < size) {
    // The first half has been read: skip to the last.
    if (size > bytes_max && at == half) {
      at = size - half;
    }
    const std::size_t end = size > bytes_max && at < half ? half : size;
    const ssize_t n =
        ::pread(file.get(), piece.data(), std::min(piece.size(), end - at), static_cast<off_t>(at));
    if (n <= 0) {
      return {};
    }
    XXH3_64bits_update(&state, piece.data(), static_cast<std::size_t>(n));
    at += static_cast<std::size_t>(n);
  }
  char text[20];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits_digest(&state)));
  return std::string(text).substr(0, 12);
}

/// The first word of the form 550.54.15, as "NVRM version: ... Kernel Module  550.54.15  Tue ...".
std::string version_number_in(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  for (std::size_t at = 0; (at = text.find_first_of(kDigits, at)) != text.npos;) {
    const auto end = std::min(text.find_first_not_of("0123456789.", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const bool alone = at == 0 || text[at - 1] == ' ' || text[at - 1] == '\t';
    if (alone && word.find('.') != word.npos) {
      return std::string(word);
    }
    at = end;
  }
  return {};
}

std::string driver_version(const FactPlaces& places, const LoaderPath& loader) {
  const auto text = read_file(places.nvidia + "/version");
  std::string version = text ? version_number_in(*text) : std::string();
  if (version.empty()) {
    version = loader.version_of("libcuda.so.1");  // containers may hide /proc/driver
  }
  return version.empty() ? "none" : version;
}

/// The models of all GPUs, each once: nodes may have more or fewer of them.
std::string gpu_models(const FactPlaces& places) {
  std::set<std::string> models;
  std::error_code error;
  // The driver has a folder for each GPU, by its PCI address; "Model:" is a line of the file in it.
  for (fs::directory_iterator at(places.nvidia + "/gpus", error), end; !error && at != end;
       at.increment(error)) {
    const auto text = read_file(at->path() / "information");
    const auto line = text ? text->find("Model:") : std::string::npos;
    if (line == std::string::npos) {
      continue;
    }
    const auto begin = text->find_first_not_of(" \t", line + 6);
    const auto stop = text->find('\n', line);
    if (begin < stop) {
      models.insert(text->substr(begin, stop - begin));
    }
  }
  std::string list;
  for (const std::string& model : models) {
    list += (list.empty() ? "" : ", ") + model;
  }
  return list.empty() ? "none" : list;
}

/// CUDA's run time, of every major version that a program might be linked with.
std::string cuda_versions(const LoaderPath& loader) {
  constexpr int kOldest = 11;
  constexpr int kNewest = 19;
  std::string list;
  for (int major = kOldest; major <= kNewest; ++major) {
    const std::string version = loader.version_of("libcudart.so." + std::to_string(major));
    if (!version.empty()) {
      list += (list.empty() ? "" : ", ") + version;
    }
  }
  return list;
}

/// The first of a name counts, as in getenv(3).
std::string value_of(const std::vector<std::string>& variables, std::string_view name) {
  for (const std::string& one : variables) {
    if (one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=') {
      return one.substr(name.size() + 1);
    }
  }
  return {};
}

/// "train.py 3f9a...": the name without its folders, which may differ from node to node.
std::string named_content(const std::string& path) {
  const std::string id = content_id(path, kProgramBytesMax);
  return id.empty() ? id : fs::path(path).filename().string() + " " + id;
}

}  // namespace

NodeEnvironment environment_facts(const Program& program, const std::vector<std::string>& variables,
                                  const std::vector<std::string>& ignored,
                                  const FactPlaces& places) {
  NodeEnvironment facts;
  // An empty value is an unknown one, and is not compared: a container may hide what other nodes
  // show.
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty() && !is_named_by(name, ignored)) {
      facts.push_back({std::string(name), bounded_value(value)});
    }
  };
  const LoaderPath loader(value_of(variables, "LD_LIBRARY_PATH"),
                          read_file(places.loader_cache).value_or(""));
  const auto python = PythonPlace::of(program, value_of(variables, "PYTHONPATH"));
  const auto torch = python ? python->torch() : std::nullopt;
  add("ddprun", DDPRUN_VERSION " " + content_id(places.own_program, kBuildBytesMax));
  // Under Python the program is the script or module; the interpreter is a fact of its own.
  const std::string content = named_content(python ? python->target() : program.path);
  add("program", content.empty() && python ? python->module() : content);
  add("arguments", compared_arguments(python ? python->arguments() : program.arguments));
  std::string cuda;
  std::string nccl;
  // PyTorch's packages bring CUDA and NCCL: the loader's are not what it uses.
  if (python) {
    const std::string build = content_id(python->interpreter(), kBuildBytesMax);
    add("python", python->version().empty() ? build : python->version() + " " + build);
    add("torch", torch ? torch->version : "none");
    cuda = torch ? torch->cuda : "";
    nccl = torch ? torch->nccl : "";
  } else {
    cuda = cuda_versions(loader);
    const std::string chosen = value_of(variables, "DDPRUN_NCCL_LIBRARY");
    nccl = loader.version_of(chosen.empty() ? "libnccl.so.2" : chosen);
  }
  // A PyTorch that was built against the system's NCCL brings none.
  if (python && !cuda.empty() && nccl.empty()) {
    nccl = loader.version_of("libnccl.so.2");
  }
  add("driver", driver_version(places, loader));
  add("cuda", cuda.empty() ? "none" : cuda);
  add("nccl", nccl.empty() ? "none" : nccl);
  add("gpu", gpu_models(places));
  // Behind the machine's facts: the table for people shows those first.
  NodeEnvironment of_variables = compared_variables(variables, ignored);
  facts.insert(facts.end(), std::make_move_iterator(of_variables.begin()),
               std::make_move_iterator(of_variables.end()));
  return facts;
}

}  // namespace ddprun
