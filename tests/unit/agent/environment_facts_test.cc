// What a node says of itself, on machines made of folders.
#include "agent/host/environment_facts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "agent/host/compared_variables.h"
#include "agent/host/host.h"
#include "agent/host/library_lookup.h"
#include "agent/host/python_installation.h"
#include "agent/process/worker_environment.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

namespace fs = std::filesystem;

/// A machine with nothing on it.
class Machine {
 public:
  Machine() : places_{file("nvidia"), file("ld.so.cache"), file("ddprun")} {
    write("ddprun", "the launcher");
  }
  [[nodiscard]] std::string file(const std::string& name) const { return dir_.file(name); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(file(name)).parent_path());
    std::ofstream(file(name), std::ios::binary) << text;
  }
  void link(const std::string& name, const std::string& to) const {
    fs::create_directories(fs::path(file(name)).parent_path());
    fs::create_symlink(to, file(name));
  }
  /// An environment with an interpreter of 3.11 and, maybe, PyTorch.
  void venv(const std::string& name, const std::string& torch, const std::string& cuda) const {
    write("usr/bin/python3.11", "an interpreter");
    link(name + "/bin/python3", file("usr/bin/python3.11"));
    write(name + "/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n");
    write(name + "/lib/python3.11/site-packages/torch/version.py",
          "from typing import Optional\n\n__version__ = '" + torch +
              "'\ncuda: Optional[str] = " + cuda + "\n");
  }
  [[nodiscard]] NodeEnvironment facts(const Program& program,
                                      const std::vector<std::string>& variables = {},
                                      const std::vector<std::string>& ignored = {}) const {
    return environment_facts(program, variables, ignored, places_);
  }

 private:
  TempDir dir_;
  FactPlaces places_;
};

std::string fact(const NodeEnvironment& facts, const std::string& name) {
  for (const EnvironmentFact& one : facts) {
    if (one.name == name) {
      return one.value;
    }
  }
  return "(no such fact)";
}

Program python(const Machine& machine, const std::string& venv,
               std::vector<std::string> arguments) {
  return {machine.file(venv + "/bin/python3"), std::move(arguments), {}};
}

/// A cache of the loader, as ldconfig writes it.
std::string loader_cache(const std::vector<std::pair<std::string, std::string>>& entries) {
  constexpr std::size_t kHeader = 48;
  constexpr std::size_t kEntry = 24;
  std::string table;
  std::string texts;
  const std::size_t texts_at = kHeader + entries.size() * kEntry;
  const auto number = [](std::string& bytes, std::size_t value) {
    const auto bits = static_cast<std::uint32_t>(value);
    bytes.append(reinterpret_cast<const char*>(&bits), sizeof bits);
  };
  for (const auto& [name, path] : entries) {
    number(table, 0x303);
    number(table, texts_at + texts.size());
    texts.append(name).push_back('\0');
    number(table, texts_at + texts.size());
    texts.append(path).push_back('\0');
    table.append(12, '\0');
  }
  std::string bytes = "glibc-ld.so.cache1.1";
  number(bytes, entries.size());
  number(bytes, texts.size());
  bytes.resize(kHeader, '\0');
  return bytes + table + texts;
}

}  // namespace

TEST_CASE("A program is its name and its content, wherever it lies") {
  const Machine machine;
  machine.write("a/train", "one");
  machine.write("b/train", "one");
  machine.write("c/train", "two");
  const auto program = [&](const std::string& name) {
    return fact(machine.facts({machine.file(name), {}, {}}), "program");
  };
  CHECK(program("a/train") == program("b/train"));
  CHECK(program("a/train") != program("c/train"));
  CHECK(program("a/train").starts_with("train "));
  CHECK(program("nowhere") == "(no such fact)");
}

TEST_CASE("Of a large program the size, the beginning and the end count") {
  const Machine machine;
  const std::string large(20UL * 1024 * 1024, 'x');
  const auto id_of = [&](const std::string& content) {
    machine.write("train", content);
    return fact(machine.facts({machine.file("train"), {}, {}}), "program");
  };
  const std::string whole = id_of(large);
  CHECK(whole == id_of(large));
  CHECK(whole != id_of(large + "x"));
  CHECK(whole != id_of("y" + large.substr(1)));
  CHECK(whole != id_of(large.substr(1) + "y"));
}

TEST_CASE("A machine without a GPU says so") {
  const Machine machine;
  const NodeEnvironment facts = machine.facts({"/bin/true", {}, {}});
  CHECK(fact(facts, "gpu") == "none");
  CHECK(fact(facts, "torch") == "(no such fact)");
  CHECK(fact(facts, "ddprun") != fact(facts, "program"));
}

TEST_CASE("The driver and each model of GPU are told, not how many there are") {
  const Machine machine;
  const Program program{"/bin/true", {}, {}};
  machine.write("nvidia/gpus/0000:01:00.0/information",
                "Model: \t\t NVIDIA H200\nIRQ:   \t\t 16\nGPU UUID: \t GPU-5a7c\n");
  machine.write("nvidia/version",
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release "
                "Build  (dvs-builder@U16)\nGCC version:  gcc version 12.3.0\n");
  const NodeEnvironment one = machine.facts(program);
  CHECK(fact(one, "driver") == "570.86.10");
  CHECK(fact(one, "gpu") == "NVIDIA H200");
  machine.write("nvidia/gpus/0000:02:00.0/information", "Model: \t\t NVIDIA H200\n");
  CHECK(machine.facts(program) == one);
  machine.write("nvidia/gpus/0000:03:00.0/information", "Model: \t\t NVIDIA A100\n");
  CHECK(fact(machine.facts(program), "gpu") == "NVIDIA A100, NVIDIA H200");
  machine.write("nvidia/version",
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 "
                "UTC 2024\n");
  CHECK(fact(machine.facts(program), "driver") == "550.54.15");
}

TEST_CASE("CUDA and NCCL of a native program are those that the loader would find") {
  const Machine machine;
  machine.write("lib/libnccl.so.2.28.9", "");
  machine.link("lib/libnccl.so.2", "libnccl.so.2.28.9");
  machine.write("lib/libcudart.so.13.0.96", "");
  machine.link("lib/libcudart.so.13", "libcudart.so.13.0.96");
  machine.write("ld.so.cache",
                loader_cache({{"libz.so.1", "/lib/libz.so.1"},
                              {"libnccl.so.2", machine.file("lib/libnccl.so.2")},
                              {"libcudart.so.13", machine.file("lib/libcudart.so.13")}}));
  const Program program{"/bin/true", {}, {}};
  CHECK(fact(machine.facts(program), "nccl") == "2.28.9");
  CHECK(fact(machine.facts(program), "cuda") == "13.0.96");
  machine.write("newer/libnccl.so.2.30.1", "");
  machine.link("newer/libnccl.so.2", "libnccl.so.2.30.1");
  const NodeEnvironment by_path =
      machine.facts(program, {"LD_LIBRARY_PATH=/nowhere:" + machine.file("newer")});
  CHECK(fact(by_path, "nccl") == "2.30.1");
  const NodeEnvironment by_name =
      machine.facts(program, {"DDPRUN_NCCL_LIBRARY=" + machine.file("newer/libnccl.so.2")});
  CHECK(fact(by_name, "nccl") == "2.30.1");
}

TEST_CASE("Any bytes may stand where the loader's cache should") {
  CHECK(parse_loader_cache("").empty());
  CHECK(parse_loader_cache("glibc-ld.so.cache1.1").empty());
  const std::string good = loader_cache({{"libnccl.so.2", "/lib/libnccl.so.2"}});
  CHECK(parse_loader_cache(good).at("libnccl.so.2") == "/lib/libnccl.so.2");
  CHECK(parse_loader_cache("ld.so-1.7.0" + std::string(100, '\0') + good).size() == 1);
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(parse_loader_cache(good.substr(0, size)).size() <= 1);
  }
  std::string wild = good;
  for (std::size_t at = 20; at < wild.size(); ++at) {
    wild[at] = '\xff';
    (void)parse_loader_cache(wild);
  }
}

TEST_CASE("A script's file counts, and the interpreter and the PyTorch that it would import") {
  const Machine machine;
  machine.venv("one", "2.13.0+cu130", "'13.0'");
  machine.venv("two", "2.12.1+cu130", "'13.0'");
  machine.write("one/lib/python3.11/site-packages/nvidia_nccl_cu13-2.28.9.dist-info/METADATA", "");
  machine.write("train.py", "import torch\n");
  const std::vector<std::string> words = {"-u", machine.file("train.py"), "--lr", "0.1"};
  const NodeEnvironment one = machine.facts(python(machine, "one", words));
  CHECK(fact(one, "program").starts_with("train.py "));
  CHECK(fact(one, "torch") == "2.13.0+cu130");
  CHECK(fact(one, "cuda") == "13.0");
  CHECK(fact(one, "nccl") == "2.28.9");
  CHECK(fact(one, "python").starts_with("3.11 "));
  const NodeEnvironment two = machine.facts(python(machine, "two", words));
  CHECK(fact(two, "torch") == "2.12.1+cu130");
  CHECK(fact(two, "python") == fact(one, "python"));  // the same interpreter by another link
  CHECK(fact(two, "program") == fact(one, "program"));
}

TEST_CASE("The words behind the program are compared, wherever the program lies") {
  const Machine machine;
  machine.venv("one", "2.13.0+cpu", "None");
  const auto of_python = [&](const std::vector<std::string>& words) {
    return fact(machine.facts(python(machine, "one", words)), "arguments");
  };
  CHECK(of_python({"-u", "/here/train.py", "--lr", "0.1"}) == "--lr 0.1");
  CHECK(of_python({"-u", "-m", "pkg.train", "--lr", "0.1"}) == "--lr 0.1");
  CHECK(of_python({"-u", "-m", "pkg.train"}) == "<none>");
  CHECK(of_python({"-X", "dev", "-c", "pass", "x"}) == "-c pass x");
  CHECK(of_python({"-u"}) == "<none>");
  CHECK(fact(machine.facts({"/bin/sh", {"-c", "true"}, {}}), "arguments") == "-c true");
  CHECK(fact(machine.facts({"/bin/sh", {"-c"}, {}}, {}, {"arguments"}), "arguments") ==
        "(no such fact)");
}

TEST_CASE("PYTHONPATH comes before the interpreter's own packages") {
  const Machine machine;
  machine.venv("one", "2.13.0+cpu", "None");
  machine.write("mine/torch/version.py", "__version__ = '2.14.0a0'\ncuda = '12.8'\n");
  const NodeEnvironment facts = machine.facts(python(machine, "one", {"-u", "x.py"}),
                                              {"PYTHONPATH=:/nowhere:" + machine.file("mine")});
  CHECK(fact(facts, "torch") == "2.14.0a0");
  CHECK(fact(facts, "cuda") == "12.8");
}

TEST_CASE("A module is found by its file where the interpreter's folders have it") {
  const Machine machine;
  machine.venv("one", "2.13.0+cpu", "None");
  const std::string packages = "one/lib/python3.11/site-packages/";
  machine.write(packages + "recipe/train.py", "pass");
  machine.write(packages + "whole/__main__.py", "pass");
  const auto target = [&](const std::vector<std::string>& words) {
    return PythonPlace::of(python(machine, "one", words), "")->target();
  };
  CHECK(target({"-u", "-m", "recipe.train"}) == machine.file(packages + "recipe/train.py"));
  CHECK(target({"-X", "dev", "-m", "whole"}) == machine.file(packages + "whole/__main__.py"));
  CHECK(target({"--check-hash-based-pycs", "always", "-m", "whole"}) ==
        machine.file(packages + "whole/__main__.py"));
  CHECK(target({"-uX", "dev", "-Om", "whole"}) == machine.file(packages + "whole/__main__.py"));
  CHECK(target({"-Wignore", "-mwhole"}) == machine.file(packages + "whole/__main__.py"));
  CHECK(target({"-uc", "pass", "x.py"}).empty());
  CHECK(target({"-u", "-m", "nowhere"}).empty());
  CHECK(target({"-c", "pass", "x.py"}).empty());
  CHECK(fact(machine.facts(python(machine, "one", {"-u", "-m", "nowhere"})), "program") ==
        "nowhere");
}

TEST_CASE("What is no version file of PyTorch's is none") {
  CHECK_FALSE(parse_torch_version("").has_value());
  CHECK_FALSE(parse_torch_version("__version__ = None\n").has_value());
  CHECK_FALSE(parse_torch_version("__version__ = '2.1").has_value());
  CHECK(parse_torch_version("__version__ = \"2.1\"\ncuda = None")->version == "2.1");
  CHECK(parse_torch_version("__version__ = '2.1'\ncuda = None\nx = '3'\n")->cuda.empty());
  CHECK(parse_torch_version("__version__ = '2.1'\n")->cuda.empty());
}

TEST_CASE("What is ignored is no fact") {
  const Machine machine;
  const NodeEnvironment facts =
      machine.facts({"/bin/true", {}, {}}, {"NCCL_DEBUG=1"}, {"gpu", "dd*", "NCCL_DEBUG"});
  CHECK(fact(facts, "gpu") == "(no such fact)");
  CHECK(fact(facts, "ddprun") == "(no such fact)");
  CHECK(fact(facts, "NCCL_DEBUG") == "(no such fact)");
  CHECK(fact(facts, "driver") != "(no such fact)");
}

TEST_CASE("Finding out costs little of a start") {
  const Program program{"/bin/bash", {"-c", "true"}, {}};
  const auto variables = own_environment();
  // The shortest of many: a busy machine does not disturb them all.
  auto shortest = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 20; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    (void)environment_facts(program, variables, {});
    shortest = std::min(shortest, std::chrono::steady_clock::now() - begun);
  }
  CHECK(shortest < std::chrono::milliseconds(50));  // ten times as long under a sanitizer
}

}  // namespace ddprun::test
