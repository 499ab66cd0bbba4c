#include "worker_runtime/bootstrap/world.h"

#include <catch2/catch.hpp>
#include <map>

using ddp::World;

namespace {

using Variables = std::map<std::string, std::string>;

ddprun::Result<World> read(Variables variables) {
  return ddp::read_world([variables = std::move(variables)](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

Variables torchrun(const Variables& changes = {}) {
  Variables all{{"RANK", "3"},
                {"WORLD_SIZE", "4"},
                {"LOCAL_RANK", "1"},
                {"LOCAL_WORLD_SIZE", "2"},
                {"GROUP_RANK", "1"},
                {"MASTER_ADDR", "10.0.0.1"},
                {"MASTER_PORT", "29500"},
                {"TORCHELASTIC_RESTART_COUNT", "2"},
                {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  for (auto& [name, value] : changes) {
    if (value == "-") {
      all.erase(name);
    } else {
      all[name] = value;
    }
  }
  return all;
}

Variables open_mpi(Variables changes = {}) {
  Variables all{{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "2"},
                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                {"PMIX_SERVER_TMPDIR", "/tmp/s"},    {"PMIX_NAMESPACE", "77"}};
  all.merge(changes);
  return all;
}

}  // namespace

TEST_CASE("torchrun's variables are read whole", "[worker_runtime]") {
  const auto world = read(torchrun());
  REQUIRE(world.has_value());
  CHECK(world->rank == 3);
  CHECK(world->world_size == 4);
  CHECK(world->local_rank == 1);
  CHECK(world->local_world_size == 2);
  CHECK(world->node_rank == 1);
  CHECK(world->restart_count == 2);
  CHECK(world->meeting == World::Meeting::by_store);
  CHECK(world->master_host == "10.0.0.1");
  CHECK(world->master_port == 29500);
}

TEST_CASE("where no agent keeps a store, rank 0 takes MASTER_PORT", "[worker_runtime]") {
  CHECK(read(torchrun({{"TORCHELASTIC_USE_AGENT_STORE", "False"}}))->meeting ==
        World::Meeting::by_port);
  CHECK(read(torchrun({{"TORCHELASTIC_USE_AGENT_STORE", "-"}}))->meeting ==
        World::Meeting::by_port);
}

TEST_CASE("an environment without any launcher is a world of one", "[worker_runtime]") {
  const auto world = read({{"MASTER_ADDR", "left-over"}, {"SLURM_PROCID", "3"}});
  REQUIRE(world.has_value());
  CHECK(world->world_size == 1);
  CHECK(world->meeting == World::Meeting::alone);
}

TEST_CASE("a world of one under a launcher needs no meeting point", "[worker_runtime]") {
  const auto world = read({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  REQUIRE(world.has_value());
  CHECK(world->meeting == World::Meeting::alone);
}

TEST_CASE("Open MPI on one host needs no address", "[worker_runtime]") {
  const auto world = read(open_mpi());
  REQUIRE(world.has_value());
  CHECK(world->rank == 1);
  CHECK(world->local_world_size == 2);
  CHECK(world->meeting == World::Meeting::by_file);
  CHECK(world->publish_path == "/tmp/s/ddprun-77.port");
}

TEST_CASE("a given address is taken before Open MPI's session directory", "[worker_runtime]") {
  const auto world = read(open_mpi({{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "4000"}}));
  REQUIRE(world.has_value());
  CHECK(world->meeting == World::Meeting::by_port);
  CHECK(world->master_host == "n1");
}

TEST_CASE("torchrun's variables win over those of an mpirun around it", "[worker_runtime]") {
  Variables both = open_mpi();
  both.merge(torchrun());
  CHECK(read(both)->rank == 3);
}

TEST_CASE("every missing or contradictory variable is named", "[worker_runtime]") {
  struct Case {
    Variables variables;
    const char* where;
    const char* words;
  };
  Variables hosts = open_mpi();
  hosts["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  hosts["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  const Case cases[] = {
      {torchrun({{"RANK", "-"}}), "RANK", "is not set"},
      {torchrun({{"WORLD_SIZE", "-"}}), "WORLD_SIZE", "is not set"},
      {torchrun({{"WORLD_SIZE", "four"}}), "WORLD_SIZE", "\"four\" is not a number"},
      {torchrun({{"RANK", "4"}}), "RANK", "contradicts WORLD_SIZE=4"},
      {torchrun({{"RANK", "-1"}}), "RANK", "\"-1\" is not a number"},
      {torchrun({{"LOCAL_RANK", "2"}}), "LOCAL_RANK", "contradicts LOCAL_WORLD_SIZE=2"},
      {torchrun({{"LOCAL_WORLD_SIZE", "5"}}), "LOCAL_WORLD_SIZE", "contradicts WORLD_SIZE=4"},
      {torchrun({{"MASTER_PORT", "70000"}}), "MASTER_PORT", "from 1 to 65535"},
      {torchrun({{"MASTER_PORT", "-"}}), "MASTER_PORT", "is not set"},
      {torchrun({{"MASTER_ADDR", "-"}}), "MASTER_ADDR", "is not set, though MASTER_PORT is"},
      {torchrun({{"MASTER_ADDR", "-"}, {"MASTER_PORT", "-"}}), "MASTER_ADDR", "cannot find"},
      {hosts, "Open MPI", "-x MASTER_ADDR"},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "PMI", "-x MASTER_ADDR"},
  };
  for (const Case& c : cases) {
    const auto world = read(c.variables);
    REQUIRE_FALSE(world.has_value());
    CHECK(world.error().where == c.where);
    CHECK_THAT(world.error().sentence(), Catch::Contains(c.words));
  }
}
