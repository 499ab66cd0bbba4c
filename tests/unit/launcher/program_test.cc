#include "launcher/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

using namespace ddprun;

namespace {

/// A tree of files in a directory of its own, gone with the object.
class Tree {
 public:
  Tree() {
    for (const char* directory : {"path1", "path2", "beside", "here"}) {
      std::filesystem::create_directory(at(directory));
    }
  }

  std::string add(const std::string& path, bool executable = true) {
    std::string file = dir_.write(path, "#!/bin/sh\n");
    REQUIRE(::chmod(file.c_str(), executable ? 0755 : 0644) == 0);
    return file;
  }
  [[nodiscard]] std::string at(const std::string& path) const { return dir_.file(path); }

  [[nodiscard]] ProgramRequest request(const std::string& name,
                                       ProgramKind kind = ProgramKind::executable) const {
    ProgramRequest request;
    request.kind = kind;
    request.name = name;
    request.arguments = {"a", "b"};
    request.search_path = at("path1") + ":" + at("path2");
    request.beside_dir = at("beside");
    request.current_dir = at("here");
    return request;
  }

 private:
  ddprun::test::TempDir dir_;
};

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("a plain name is looked up on PATH in order, then beside ddprun", "[launcher]") {
  Tree tree;
  const std::string beside = tree.add("beside/train");
  CHECK(find_program(tree.request("train"))->path == beside);
  const std::string second = tree.add("path2/train");
  CHECK(find_program(tree.request("train"))->path == second);
  const std::string first = tree.add("path1/train");
  const auto program = find_program(tree.request("train"));
  REQUIRE(program.has_value());
  CHECK(program->path == first);
  CHECK(program->arguments == Words{"a", "b"});
  CHECK(program->display_name == "train");
}

TEST_CASE("a file on PATH that cannot be executed is passed over", "[launcher]") {
  Tree tree;
  tree.add("path1/train", false);
  std::filesystem::create_directory(tree.at("path2/train"));
  const std::string beside = tree.add("beside/train");
  CHECK(find_program(tree.request("train"))->path == beside);
}

TEST_CASE("the only file of that name cannot be executed: it is named", "[launcher]") {
  Tree tree;
  const std::string file = tree.add("path2/train", false);
  const auto program = find_program(tree.request("train"));
  REQUIRE_FALSE(program.has_value());
  CHECK(program.error().where == file);
  CHECK(program.error().what == "it is not executable");
}

TEST_CASE("an empty directory on PATH is the current one", "[launcher]") {
  Tree tree;
  const std::string file = tree.add("here/train");
  ProgramRequest request = tree.request("train");
  request.search_path = tree.at("path1") + "::" + tree.at("path2");
  CHECK(find_program(request)->path == file);
}

TEST_CASE("a path with a slash is taken as it is, from the current directory", "[launcher]") {
  Tree tree;
  tree.add("path1/train");
  const std::string file = tree.add("here/train");
  CHECK(find_program(tree.request("./train"))->path == tree.at("here/./train"));
  CHECK(find_program(tree.request(file))->path == file);
  REQUIRE(find_program(tree.request(file))->display_name == file);
}

TEST_CASE("a program that is nowhere is told with all places", "[launcher]") {
  Tree tree;
  const auto program = find_program(tree.request("nowhere"));
  REQUIRE_FALSE(program.has_value());
  const std::string sentence = program.error().sentence();
  for (const std::string& part :
       {std::string("'nowhere'"), tree.at("path1"), tree.at("path2"), tree.at("beside")}) {
    INFO(part);
    CHECK(sentence.find(part) != std::string::npos);
  }
  CHECK(sentence.find('\n') == std::string::npos);
}

TEST_CASE("a program of the current directory is offered with ./", "[launcher]") {
  Tree tree;
  tree.add("here/mine");
  const auto program = find_program(tree.request("mine"));
  REQUIRE_FALSE(program.has_value());
  CHECK(program.error().todo.find("./mine") != std::string::npos);
}

TEST_CASE("a path that cannot be executed says why", "[launcher]") {
  Tree tree;
  const std::string plain = tree.add("here/plain", false);
  ::symlink("loop", tree.at("here/loop").c_str());
  struct Row {
    const char* name;
    const char* what;
  };
  const Row rows[] = {
      {"./missing", "there is no such file"},       {"./plain/below", "there is no such file"},
      {"./plain", "it is not executable"},          {"../here", "it is a directory"},
      {"./loop", "its symbolic links form a loop"}, {"/dev/null", "it is not a regular file"}};
  for (const Row& row : rows) {
    INFO(row.name);
    const auto program = find_program(tree.request(row.name));
    REQUIRE_FALSE(program.has_value());
    CHECK(program.error().what == row.what);
    CHECK(program.error().where.find("program /") == 0);
    CHECK_FALSE(program.error().todo.empty());
  }
  CHECK_FALSE(find_program(tree.request("")).has_value());
  const auto script = find_program(tree.request("loop", ProgramKind::python_script));
  REQUIRE_FALSE(script.has_value());
  CHECK(script.error().what == "its symbolic links form a loop");
}

TEST_CASE("a Python script runs unbuffered under python3, or else python", "[launcher]") {
  Tree tree;
  tree.add("here/train.py", false);
  const std::string python = tree.add("path1/python");
  CHECK(find_program(tree.request("train.py", ProgramKind::python_script))->path == python);
  const std::string python3 = tree.add("path2/python3");
  const auto program = find_program(tree.request("train.py", ProgramKind::python_script));
  REQUIRE(program.has_value());
  CHECK(program->path == python3);
  CHECK(program->arguments == Words{"-u", "train.py", "a", "b"});
  CHECK(program->display_name == "train.py");
}

TEST_CASE("ddprun in a virtual environment runs that one's Python, active or not", "[launcher]") {
  Tree tree;
  tree.add("here/train.py", false);
  const std::string first = tree.add("path1/python3");
  const std::string own = tree.add("beside/python3");
  ProgramRequest request = tree.request("train.py", ProgramKind::python_script);
  CHECK(find_program(request)->path == first);  // beside it as in /usr/bin
  tree.add("pyvenv.cfg", false);
  CHECK(find_program(request)->path == own);
  std::filesystem::remove(own);
  CHECK(find_program(request)->path == first);
  const std::string other = tree.add("beside/python");
  CHECK(find_program(request)->path == other);
  request.python = first;
  CHECK(find_program(request)->path == first);
}

TEST_CASE("PYTHON_EXEC names the interpreter, by name or by path", "[launcher]") {
  Tree tree;
  tree.add("here/train.py", false);
  tree.add("path1/python3");
  const std::string mine = tree.add("path2/mypython");
  ProgramRequest request = tree.request("train.py", ProgramKind::python_script);
  request.python = "mypython";
  CHECK(find_program(request)->path == mine);
  request.python = mine;
  CHECK(find_program(request)->path == mine);
  request.python = "/nowhere/python";
  REQUIRE_FALSE(find_program(request).has_value());
  CHECK(find_program(request).error().where == "PYTHON_EXEC=/nowhere/python");
  request.python = "nopython";
  REQUIRE_FALSE(find_program(request).has_value());
  CHECK(find_program(request).error().what.find("nopython") != std::string::npos);
}

TEST_CASE("the link to an interpreter is not followed, or a virtual environment is lost",
          "[launcher]") {
  Tree tree;
  tree.add("here/train.py", false);
  const std::string real = tree.add("beside/python3.11");
  REQUIRE(::symlink(real.c_str(), tree.at("path1/python3").c_str()) == 0);
  CHECK(find_program(tree.request("train.py", ProgramKind::python_script))->path ==
        tree.at("path1/python3"));
}

TEST_CASE("a module is left for Python to find", "[launcher]") {
  Tree tree;
  tree.add("path1/python3");
  const auto program = find_program(tree.request("pkg.train", ProgramKind::python_module));
  REQUIRE(program.has_value());
  CHECK(program->arguments == Words{"-u", "-m", "pkg.train", "a", "b"});
}

TEST_CASE("a missing script and a missing Python are different sentences", "[launcher]") {
  Tree tree;
  const auto script = find_program(tree.request("gone.py", ProgramKind::python_script));
  REQUIRE_FALSE(script.has_value());
  CHECK(script.error().where == "Python script " + tree.at("here/gone.py"));
  tree.add("here/train.py", false);
  const auto python = find_program(tree.request("train.py", ProgramKind::python_script));
  REQUIRE_FALSE(python.has_value());
  CHECK(python.error().what.find("python3 and python") != std::string::npos);
}

TEST_CASE("a script gets its local rank in the spelling that it reads") {
  CHECK(local_rank_option("parser.add_argument('--local_rank', type=int)") == "--local_rank");
  CHECK(local_rank_option("parser.add_argument('--local-rank')") == "--local-rank");
  CHECK(local_rank_option("add_argument('--local-rank', '--local_rank')") == "--local-rank");
  CHECK(local_rank_option("import common") == "--local-rank");
}

TEST_CASE("the local rank comes before the script's own arguments") {
  Tree tree;
  tree.add("path1/python3");
  tree.add("here/old.py");
  std::ofstream(tree.at("here/old.py")) << "p.add_argument('--local_rank')\n";
  ProgramRequest request = tree.request("old.py", ProgramKind::python_script);
  request.arguments = {"--lr", "1"};
  request.local_rank_argument = true;
  const auto program = find_program(request);
  REQUIRE(program.has_value());
  CHECK(program->arguments ==
        std::vector<std::string>{"-u", "old.py", "--local_rank=${local_rank}", "--lr", "1"});
}
