#include "agent/host/python_installation.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <utility>

#include "rendezvous/base/file_text.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// "3.11" of "python3.11".
std::string version_in(std::string_view name) {
  constexpr std::string_view kStem = "python";
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  };
  const auto dot = name.find('.');
  const bool good = name.starts_with(kStem) && dot != name.npos && dot > kStem.size() &&
                    digits(name.substr(kStem.size(), dot - kStem.size())) &&
                    digits(name.substr(dot + 1));
  return good ? std::string(name.substr(kStem.size())) : std::string();
}

bool is_python(const Program& program) {
  const std::string name = fs::path(program.path).filename();
  return name.starts_with("python") ||
         (program.arguments.size() > 1 && program.arguments[0] == "-u");
}

/// 'text' behind `name = ` or `name: TYPE = `; none when the line is not there, "" for None.
std::optional<std::string> python_string(const std::string& text, const std::string& name) {
  const std::string lines = "\n" + text;
  for (const char after : {' ', ':'}) {
    const auto line = lines.find("\n" + name + after);
    if (line == std::string::npos) {
      continue;
    }
    const auto end = lines.find('\n', line + 1);
    const std::string_view one = std::string_view(lines).substr(line, end - line);
    const auto equals = one.find("= ");
    const auto begin = equals == one.npos ? one.npos : one.find_first_of("'\"", equals);
    const auto close = begin == one.npos ? one.npos : one.find(one[begin], begin + 1);
    return close == one.npos ? std::string()
                             : std::string(one.substr(begin + 1, close - begin - 1));
  }
  return std::nullopt;
}

/// What lies behind the interpreter's own options.
struct Target {
  std::string script;
  std::string module;
  std::size_t words = 0;  ///< up to it
};

/// The interpreter's own reading (CPython, Python/getopt.c): letters may be run together, and the
/// value of the last one stands behind it or is the next word. Of the long options
/// --check-hash-based-pycs has a value, which is always the next word.
Target target_of(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "-") {
      return {{}, {}, i};
    }
    if (!word.starts_with('-')) {
      return {word, {}, i + 1};
    }
    if (word.starts_with("--")) {
      i += word == "--check-hash-based-pycs" ? 1 : 0;
      continue;
    }
    const auto letter = word.find_first_of("cmWX", 1);
    if (letter == word.npos) {
      continue;
    }
    const bool in_next = letter + 1 == word.size();
    if (word[letter] == 'c') {
      return {{}, {}, i};
    }
    if (word[letter] == 'm') {
      const std::string next = i + 1 < arguments.size() ? arguments[i + 1] : std::string();
      return {{},
              in_next ? next : word.substr(letter + 1),
              std::min(i + (in_next ? 2 : 1), arguments.size())};
    }
    i += in_next ? 1 : 0;
  }
  return {{}, {}, arguments.size()};
}

/// The interpreter's own folders of packages, of its prefix and of the system's.
void add_own_folders(const fs::path& prefix, const std::string& version,
                     std::vector<std::string>& folders) {
  const std::string lib = "lib/python" + version;
  // Python's site.py has site-packages; Debian's has dist-packages, and one folder for all
  // versions.
  for (const fs::path& place :
       {prefix / lib / "site-packages", prefix / "local" / lib / "dist-packages",
        prefix / lib / "dist-packages", prefix / "lib/python3/dist-packages"}) {
    if (is_folder(place)) {
      folders.push_back(place);
    }
  }
}

}  // namespace

std::optional<PyTorch> parse_torch_version(const std::string& text) {
  const auto version = python_string(text, "__version__");
  if (!version || version->empty()) {
    return std::nullopt;
  }
  return PyTorch{*version, python_string(text, "cuda").value_or(""), {}};
}

std::optional<PythonPlace> PythonPlace::of(const Program& program, const std::string& search_path) {
  if (!is_python(program)) {
    return std::nullopt;
  }
  PythonPlace place;
  Target target = target_of(program.arguments);
  place.script_ = std::move(target.script);
  place.module_ = std::move(target.module);
  place.arguments_.assign(program.arguments.begin() + static_cast<std::ptrdiff_t>(target.words),
                          program.arguments.end());
  std::error_code error;
  // The python of a virtual environment is a link to the interpreter proper, whose name has the
  // version.
  const fs::path real = fs::canonical(program.path, error);
  // A path that does not resolve stays as it was given: the spawn reports it.
  place.interpreter_ = error ? program.path : real.string();
  place.version_ = version_in(fs::path(place.interpreter_).filename().string());
  for (std::size_t begin = 0; begin < search_path.size();) {
    const std::size_t end = std::min(search_path.find(':', begin), search_path.size());
    if (end > begin) {
      place.folders_.push_back(search_path.substr(begin, end - begin));
    }
    begin = end + 1;
  }
  // As the interpreter finds it: pyvenv.cfg beside it, or above, makes its folder the prefix; then
  // the folders of the interpreter proper count only if the environment says so.
  const fs::path given = fs::path(program.path).parent_path().parent_path();
  const auto settings = read_file(given / "pyvenv.cfg");
  if (settings) {
    add_own_folders(given, place.version_, place.folders_);
  }
  if (!settings || settings->find("include-system-site-packages = true") != std::string::npos) {
    add_own_folders(fs::path(place.interpreter_).parent_path().parent_path(), place.version_,
                    place.folders_);
  }
  return place;
}

std::string PythonPlace::target() const {
  if (!script_.empty()) {
    // Python runs a folder by the __main__.py in it.
    return is_file(script_) ? script_ : (fs::path(script_) / "__main__.py").string();
  }
  std::string relative = module_;
  std::replace(relative.begin(), relative.end(), '.', '/');
  std::vector<std::string> folders{"."};  // python -m begins there
  folders.insert(folders.end(), folders_.begin(), folders_.end());
  for (const std::string& folder : folders) {
    for (const fs::path& file :
         {fs::path(folder) / relative / "__main__.py", fs::path(folder) / (relative + ".py")}) {
      if (!module_.empty() && is_file(file)) {
        return file;
      }
    }
  }
  return {};
}

std::optional<PyTorch> PythonPlace::torch() const {
  for (const std::string& folder : folders_) {
    // The first folder that has the package is the one that the import takes.
    const auto text = read_file((fs::path(folder) / "torch/version.py").string());
    auto found = text ? parse_torch_version(*text) : std::nullopt;
    if (!found) {
      continue;
    }
    constexpr std::string_view kPackage = "nvidia_nccl_cu";
    std::error_code error;
    // A folder may have a thousand entries: it is read only where PyTorch would look for NCCL.
    fs::directory_iterator at(folder, error);
    for (const fs::directory_iterator end; !found->cuda.empty() && !error && at != end;
         at.increment(error)) {
      const std::string name = at->path().filename();
      const auto dash = name.find('-');
      if (name.starts_with(kPackage) && name.ends_with(".dist-info") && dash != name.npos) {
        found->nccl = name.substr(dash + 1, name.rfind(".dist-info") - dash - 1);
      }
    }
    return found;
  }
  return std::nullopt;
}

}  // namespace ddprun
