#include "rendezvous/membership/environment_table.h"

#include <catch2/catch.hpp>

using namespace ddprun;

namespace {

using Lines = std::vector<std::string>;

/// n1 to n<count>, without `left_out`.
Lines nodes(int count, int left_out = 0) {
  Lines names;
  for (int i = 1; i <= count; ++i) {
    if (i != left_out) {
      names.push_back("n" + std::to_string(i));
    }
  }
  return names;
}

}  // namespace

TEST_CASE("Two nodes that differ are two lines for each fact that differs, and no other fact") {
  const auto table =
      environment_table({{{"n1"}, {{"ddprun", "1"}, {"gpu", "H200"}, {"NCCL_DEBUG", "INFO"}}},
                         {{"n2"}, {{"ddprun", "1"}, {"gpu", "A100"}, {"NCCL_DEBUG", "WARN"}}}});
  CHECK(table == Lines{"  what        value  nodes",  //
                       "  gpu         H200   n1",     //
                       "              A100   n2",     //
                       "  NCCL_DEBUG  INFO   n1",     //
                       "              WARN   n2"});
}

TEST_CASE("Of five nodes the value of most comes first, and what is not set is said to be so") {
  const auto table = environment_table({{{"n3"}, {{"torch", "2.13.0"}, {"OMP_NUM_THREADS", ""}}},
                                        {nodes(5, 3), {{"torch", "2.13.0"}}}});
  CHECK(table == Lines{"  what             value      nodes",           //
                       "  OMP_NUM_THREADS  <not set>  n1, n2, n4, n5",  //
                       "                   <empty>    n3"});
}

TEST_CASE("A thousand nodes are as many lines as two") {
  const auto table =
      environment_table({{nodes(1000, 500), {{"driver", "570.86.10"}, {"cuda", "13.0"}}},
                         {{"n500"}, {{"driver", "550.54.15"}, {"cuda", "13.0"}}}});
  CHECK(table == Lines{"  what    value      nodes",                //
                       "  driver  570.86.10  n1-n499, n501-n1000",  //
                       "          550.54.15  n500"});
}

TEST_CASE("Environments that are equal make no table") {
  CHECK(environment_table({}).empty());
  CHECK(environment_table({{{"n1"}, {{"gpu", "H200"}}}}).empty());
  CHECK(environment_table({{{"n1"}, {{"gpu", "H200"}}}, {{"n2"}, {{"gpu", "H200"}}}}).empty());
}

TEST_CASE("Facts of the machine come before variables, and these by name") {
  const auto table = environment_table(
      {{{"n1"}, {{"program", "a"}, {"NCCL_P2P_DISABLE", "1"}}},
       {{"n2"}, {{"program", "b"}, {"driver", "1"}, {"LD_PRELOAD", "x"}, {"NCCL_ALGO", "Ring"}}}});
  Lines order;
  for (std::size_t i = 1; i < table.size(); i += 2) {
    order.push_back(table[i].substr(2, table[i].find(' ', 2) - 2));
  }
  CHECK(order == Lines{"program", "driver", "LD_PRELOAD", "NCCL_ALGO", "NCCL_P2P_DISABLE"});
}

TEST_CASE("Of long values the part around their first difference is shown") {
  const std::string common(500, '/');
  const std::string more(200, 'z');
  const auto table = environment_table({{{"n1"}, {{"LD_LIBRARY_PATH", common + "cuda-12" + more}}},
                                        {{"n2"}, {{"LD_LIBRARY_PATH", common + "cuda-13"}}}});
  REQUIRE(table.size() == 3);
  CHECK(table[1].find(".../////////cuda-12zzz") == std::string::npos);
  CHECK(table[1].find("cuda-12zzz") != std::string::npos);
  CHECK(table[2].find("...") != std::string::npos);
  CHECK(table[2].find("cuda-13 ") != std::string::npos);
  for (const std::string& line : table) {
    CHECK(line.size() < 100);
  }
}

TEST_CASE("What another machine sent cannot move the terminal's cursor") {
  const auto table = environment_table(
      {{{"n1\x1b[2J"}, {{"NCCL_\nDEBUG", "\x1b[2J"}}}, {{"n2"}, {{"NCCL_\nDEBUG", "\r"}}}});
  for (const std::string& line : table) {
    CHECK(line.find_first_of("\x1b\n\r") == std::string::npos);
  }
  const std::string clause = difference_clause({{"NCCL_\nX", "\x1b"}}, {});
  CHECK(clause == "NCCL_?X (?, not <not set>)");
}

TEST_CASE("More values, and more facts, than a table has room for are counted") {
  std::vector<NodesAlike> groups;
  for (std::size_t i = 1; i <= kTableValuesMax + 3; ++i) {
    groups.push_back({{"n" + std::to_string(i)}, {{"gpu", "model " + std::to_string(i)}}});
  }
  const auto values = environment_table(groups);
  REQUIRE(values.size() == 1 + kTableValuesMax + 1);
  CHECK(values.back() == "        <3 more values>  n9-n11");

  groups = {{{"n1"}, {}}, {{"n2"}, {}}};
  for (std::size_t i = 0; i < kTableFactsMax + 2; ++i) {
    groups[0].environment.push_back({"NCCL_" + std::to_string(i), "1"});
  }
  const auto facts = environment_table(groups);
  REQUIRE(facts.size() == 1 + 2 * kTableFactsMax + 1);
  CHECK(facts.back() == "  and 2 more differences");
}

TEST_CASE("A sentence names three differences, and counts the others") {
  CHECK(difference_clause({{"gpu", "A100"}}, {{"gpu", "A100"}}).empty());
  CHECK(difference_clause({{"NCCL_DEBUG", "WARN"}}, {{"NCCL_DEBUG", "INFO"}}) ==
        "NCCL_DEBUG (WARN, not INFO)");
  CHECK(difference_clause({{"gpu", "A100"}, {"cuda", "12.4"}, {"nccl", "2.20"}},
                          {{"gpu", "H200"},
                           {"cuda", "13.0"},
                           {"nccl", "2.28"},
                           {"NCCL_ALGO", ""},
                           {"OMP_NUM_THREADS", "4"}}) ==
        "gpu (A100, not H200), cuda (12.4, not 13.0), nccl (2.20, not 2.28) and 2 more");
}
