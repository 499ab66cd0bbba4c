#include "rendezvous/membership/node_by_text.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <variant>

using namespace ddprun;

namespace {

JobNodes nodes_called(std::initializer_list<std::pair<std::uint64_t, std::string>> names) {
  JobNodes nodes;
  for (const auto& [id, name] : names) {
    NodeDescription node;
    node.host_name = name;
    nodes.admit(NodeJoined{NodeId{id}, node, "10.0.0.1"}, Instant{});
  }
  return nodes;
}

}  // namespace

TEST_CASE("a node is meant by its name, or by its number", "[membership]") {
  const JobNodes nodes = nodes_called({{2, "n1"}, {5, "n2"}, {7, "2"}});
  CHECK(std::get<NodeId>(node_by_text(nodes, "n2")) == NodeId{5});
  CHECK(std::get<NodeId>(node_by_text(nodes, "5")) == NodeId{5});
  CHECK(std::get<NodeId>(node_by_text(nodes, "2")) == NodeId{7});  // a name goes before a number
}

TEST_CASE("where no node is meant, or several, those that there are are named", "[membership]") {
  const JobNodes nodes = nodes_called({{2, "n"}, {5, "n"}, {6, "m"}});
  CHECK(std::get<std::string>(node_by_text(nodes, "n")) ==
        "2 nodes are called n; give the number of one: 2 (n), 5 (n)");
  for (const char* const text : {"x\n", "", "3", "-2", "2 "}) {
    INFO(text);
    CHECK(std::get<std::string>(node_by_text(nodes, text))
              .ends_with("; there are: 2 (n), 5 (n), 6 (m)"));
  }
  CHECK(std::get<std::string>(node_by_text(nodes, "x\n"))
            .starts_with("no node of this job is called x?;"));
}

TEST_CASE("of a large job a few nodes are named", "[membership]") {
  JobNodes nodes;
  for (std::uint64_t id = 1; id <= 20; ++id) {
    NodeDescription node;
    node.host_name = "n" + std::to_string(id);
    nodes.admit(NodeJoined{NodeId{id}, node, ""}, Instant{});
  }
  CHECK(std::get<std::string>(node_by_text(nodes, "x")).ends_with(", 16 (n16) and 4 more"));
}
