// PythonPlace: what a Python interpreter would load, found in its folders without starting it: the
// script or module that it was given, PyTorch's version, and the CUDA and NCCL that PyTorch brings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/job_spec.h"

namespace ddprun {

struct PyTorch {
  std::string version;  ///< "2.13.0+cpu"
  std::string cuda;     ///< "13.0"; empty: built without
  std::string nccl;     ///< "2.28.9" of the package beside it; empty: none is there
};

class PythonPlace {
 public:
  /// None unless the program is a Python interpreter, by its name, or by the -u that ddprun gives
  /// to one of another name. `search_path` is PYTHONPATH.
  static std::optional<PythonPlace> of(const Program& program, const std::string& search_path);

  /// The interpreter, links followed.
  [[nodiscard]] const std::string& interpreter() const { return interpreter_; }
  /// "3.11"; empty where neither its name nor its folders tell.
  [[nodiscard]] const std::string& version() const { return version_; }
  /// The file of the script or module; empty when it is not found: frozen, zipped, a namespace.
  [[nodiscard]] std::string target() const;
  /// The name behind -m; empty: it was given none.
  [[nodiscard]] const std::string& module() const { return module_; }
  /// The words behind the script or module.
  [[nodiscard]] const std::vector<std::string>& arguments() const { return arguments_; }
  [[nodiscard]] std::optional<PyTorch> torch() const;

 private:
  std::string interpreter_;
  std::string version_;
  std::string script_;
  std::string module_;
  std::vector<std::string> arguments_;
  std::vector<std::string> folders_;  ///< of packages, in the order of sys.path
};

/// Pure. What torch/version.py says.
std::optional<PyTorch> parse_torch_version(const std::string& text);

}  // namespace ddprun
