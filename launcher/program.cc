#include "launcher/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

namespace ddprun {
namespace {

bool has_slash(std::string_view name) {
  return name.find('/') != std::string_view::npos;
}

/// Symbolic links stay: a virtual environment's python knows its home by the link's own path.
std::string absolute(std::string_view path, const std::string& current_dir) {
  if (path.starts_with('/')) {
    return std::string(path);
  }
  return current_dir + (current_dir.ends_with('/') ? "" : "/") + std::string(path);
}

/// Why nothing can be found at this path, as a clause; none when something is there.
std::optional<std::string> unreachable(const std::string& path, struct stat& status) {
  if (::stat(path.c_str(), &status) == 0) {
    return std::nullopt;
  }
  switch (errno) {
    case ENOENT:
    case ENOTDIR:
      return "there is no such file";
    case EACCES:
      return "a directory on the way to it may not be entered";
    case ELOOP:
      return "its symbolic links go round in a circle";
    default:
      return "it cannot be looked at (" + std::string(std::strerror(errno)) + ")";
  }
}

/// Why this path cannot be executed, as a clause; none when it can.
std::optional<std::string> obstacle(const std::string& path) {
  struct stat status {};
  if (auto why = unreachable(path, status)) {
    return why;
  }
  if (S_ISDIR(status.st_mode)) {
    return "it is a directory";
  }
  if (!S_ISREG(status.st_mode)) {
    return "it is not a regular file";
  }
  if (::access(path.c_str(), X_OK) != 0) {
    return "it is not executable";
  }
  return std::nullopt;
}

bool is_missing(const std::string& path) {
  struct stat status {};
  return unreachable(path, status).has_value();
}

struct Search {
  std::optional<std::string> found;
  /// The first file of that name that could not be executed.
  std::optional<Error> unusable;
};

Search look_for(const std::string& name, std::string_view directories,
                const std::string& current_dir) {
  Search result;
  for (bool more = true; more;) {
    const auto colon = directories.find(':');
    const std::string_view directory = directories.substr(0, colon);
    more = colon != std::string_view::npos;
    directories.remove_prefix(more ? colon + 1 : directories.size());
    const std::string path =
        absolute(directory.empty() ? name : std::string(directory) + "/" + name, current_dir);
    const auto problem = obstacle(path);
    if (!problem) {
      result.found = path;
      return result;
    }
    if (!result.unusable && !is_missing(path)) {
      result.unusable = Error{*problem, path, "make it executable (chmod +x), or remove it"};
    }
  }
  return result;
}

/// An executable by path, or by name on the search path and then beside ddprun.
Result<std::string> find_executable(const ProgramRequest& request) {
  if (has_slash(request.name)) {
    const std::string path = absolute(request.name, request.current_dir);
    if (const auto problem = obstacle(path)) {
      return Error{*problem, "program " + path,
                   is_missing(path) ? "check the path, which must be there on every node"
                                    : "name a file that can be executed (chmod +x)"};
    }
    return path;
  }
  const Search on_path = look_for(request.name, request.search_path, request.current_dir);
  if (on_path.found) {
    return *on_path.found;
  }
  const Search beside = look_for(request.name, request.beside_dir, request.current_dir);
  if (beside.found) {
    return *beside.found;
  }
  if (on_path.unusable || beside.unusable) {
    return on_path.unusable ? *on_path.unusable : *beside.unusable;
  }
  const std::string here = absolute(request.name, request.current_dir);
  return Error{"found neither on PATH (" + request.search_path + ") nor beside ddprun (" +
                   request.beside_dir + ")",
               "program '" + request.name + "'",
               is_missing(here) ? "check the name, or give a path with a slash in it"
                                : "write ./" + request.name + " for the one in this directory"};
}

Result<std::string> find_python(const ProgramRequest& request) {
  if (has_slash(request.python)) {
    const std::string path = absolute(request.python, request.current_dir);
    if (const auto problem = obstacle(path)) {
      return Error{*problem, "PYTHON_EXEC=" + request.python, "name a Python interpreter"};
    }
    return path;
  }
  const std::vector<std::string> names = request.python.empty()
                                             ? std::vector<std::string>{"python3", "python"}
                                             : std::vector<std::string>{request.python};
  std::string looked_for;
  for (const std::string& name : names) {
    if (auto result = look_for(name, request.search_path, request.current_dir); result.found) {
      return *result.found;
    }
    looked_for += (looked_for.empty() ? "" : " and ") + name;
  }
  return Error{
      "no Python to run it: looked for " + looked_for + " on PATH (" + request.search_path + ")",
      "program '" + request.name + "'", "install Python or set PYTHON_EXEC to an interpreter"};
}

/// Empty when it cannot be read: Python will say why.
std::string read_source(const std::string& path) {
  constexpr std::size_t kBytesMax = 4UL * 1024 * 1024;
  std::string source(kBytesMax, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(source.data(), static_cast<std::streamsize>(source.size()));
  source.resize(static_cast<std::size_t>(file.gcount()));
  return source;
}

}  // namespace

std::string local_rank_option(std::string_view source) {
  const bool underscore = source.find("--local_rank") != std::string_view::npos;
  const bool dash = source.find("--local-rank") != std::string_view::npos;
  return underscore && !dash ? "--local_rank" : "--local-rank";
}

Result<Program> find_program(const ProgramRequest& request) {
  Program program;
  program.display_name = request.name;
  if (request.name.empty()) {
    return Error{"the name of the program is empty", "", "write ddprun [options] PROGRAM"};
  }
  if (request.kind == ProgramKind::executable) {
    auto path = find_executable(request);
    if (!path) {
      return path.error();
    }
    program.path = *std::move(path);
    program.argv0 = request.name;  // as a shell has it: programs look at it (busybox, wrappers)
  } else {
    if (request.kind == ProgramKind::python_script) {
      const std::string script = absolute(request.name, request.current_dir);
      struct stat status {};
      if (auto why = unreachable(script, status)) {
        return Error{*std::move(why), "Python script " + script,
                     "check the path, which must be there on every node"};
      }
    }
    auto python = find_python(request);
    if (!python) {
      return python.error();
    }
    program.path = *std::move(python);
    program.arguments = {"-u"};  // unbuffered: a killed worker's last words are on disk
    if (request.kind == ProgramKind::python_module) {
      program.arguments.emplace_back("-m");
    }
    program.arguments.push_back(request.name);
  }
  if (request.local_rank_argument) {
    const std::string source = request.kind == ProgramKind::python_script
                                   ? read_source(absolute(request.name, request.current_dir))
                                   : std::string();
    program.arguments.push_back(local_rank_option(source) + "=${local_rank}");
  }
  program.arguments.insert(program.arguments.end(), request.arguments.begin(),
                           request.arguments.end());
  return program;
}

}  // namespace ddprun
