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

/// As in execvp(3), which searches PATH only for a name without a slash.
bool has_slash(std::string_view name) {
  return name.find('/') != std::string_view::npos;
}

/// Symbolic links stay: a virtual environment's python finds its home by the path of the link.
/// Paths become absolute, because a worker may have another working directory by the time it
/// starts.
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
      return "a directory on its path cannot be entered";
    case ELOOP:
      return "its symbolic links form a loop";
    default:
      return "it cannot be looked at (" + std::string(std::strerror(errno)) + ")";
  }
}

/// Why this path cannot be executed, as a clause; none when it can. Asked before any worker starts,
/// so that the mistake is one sentence and not the failure of each worker on each node.
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

/// As execvp(3): an empty entry means the current directory, and a file that cannot be executed
/// does not end the search. The first such file is kept, because it explains why nothing was found.
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

/// An executable by path, or by name on the search path and then beside ddprun. So `ddprun train`
/// finds the trainer that was installed with it, and PATH can still name another one.
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
  // A file of that name that cannot be executed is a likelier mistake than a wrong name.
  if (on_path.unusable || beside.unusable) {
    return on_path.unusable ? *on_path.unusable : *beside.unusable;
  }
  const std::string here = absolute(request.name, request.current_dir);
  // None: it is looked for on other hosts' behalf.
  const std::string beside_ddprun =
      request.beside_dir.empty() ? "" : " nor beside ddprun (" + request.beside_dir + ")";
  return Error{(beside_ddprun.empty() ? "not found on PATH (" : "found neither on PATH (") +
                   request.search_path + ")" + beside_ddprun,
               "program '" + request.name + "'",
               is_missing(here) ? "check the name, or give a path with a slash in it"
                                : "write ./" + request.name + " for the one in this directory"};
}

/// torchrun runs PYTHON_EXEC, else the interpreter that it runs in itself. ddprun runs in none.
/// Where it lies in a virtual environment it takes that one's, though it may not be active; else
/// the first on PATH.
Result<std::string> find_python(const ProgramRequest& request) {
  if (has_slash(request.python)) {
    const std::string path = absolute(request.python, request.current_dir);
    if (const auto problem = obstacle(path)) {
      return Error{*problem, "PYTHON_EXEC=" + request.python, "name a Python interpreter"};
    }
    return path;
  }
  if (request.python.empty() && !is_missing(request.beside_dir + "/../pyvenv.cfg")) {
    for (const char* name : {"/python3", "/python"}) {
      if (std::string own = request.beside_dir + name; !obstacle(own)) {
        return own;
      }
    }
  }
  const std::vector<std::string> names = request.python.empty()
                                             ? std::vector<std::string>{"python3", "python"}
                                             : std::vector<std::string>{request.python};
  // Some systems have no python3, others no python. PYTHON_EXEC may be a bare name as well.
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

/// Empty when it cannot be read: Python will say why. Only an option's name is searched in it, and
/// no script is as long as the limit.
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

// What torchrun's _get_cmd does: an executable as it is, or `python -u` with a script or with -m. A
// script is looked up here; a module is not, since sys.path is only known to Python.
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
    // As a shell has it: some programs act by the name that they are called by (busybox, wrappers).
    program.argv0 = request.name;
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
    // Unbuffered, as in torchrun: what a worker printed before it was killed is in its log.
    program.arguments = {"-u"};
    if (request.kind == ProgramKind::python_module) {
      program.arguments.emplace_back("-m");
    }
    program.arguments.push_back(request.name);
  }
  // In front of the user's own arguments, where torch.distributed.launch puts it. The agent
  // replaces the variable in it for each worker.
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
