// What the coordinator tells nodes of each other: MASTER_ADDR, the waiting table, taken ranks.
#include "rendezvous/protocol/frame.h"
#include "rendezvous/protocol/message_codec.h"
#include "tests/unit/control/job.h"

using namespace ddprun;

TEST_CASE("MASTER_ADDR is the address by which a node came, or the one that was asked for") {
  Job job(2, 2);
  std::string expected;
  SECTION("IPv4 on a dual-stack socket is unmapped") {
    Listening listening = listen_everywhere(0);
    REQUIRE(listening.socket);
    job.serve(std::move(listening.socket));
    expected = "127.0.0.1";
  }
  SECTION("asked for") {
    job.options.master_addr = "n1.example";
    job.open();
    expected = "n1.example";
  }
  const auto a = job.local("n1");
  const auto b = job.remote("n2");
  job.loop.until([&] { return a->world && b->world; });
  CHECK(a->world->master_addr == expected);
  CHECK(b->world->master_addr == expected);
}

TEST_CASE("All nodes are told one MASTER_ADDR where one serves all, also by IPv6 loopback (I-4)") {
  Job job(3, 3);
  Listening listening = listen_at("::1", 0);
  REQUIRE(listening.socket);
  job.serve(std::move(listening.socket));
  const auto a = job.local("n1");
  const auto b = job.start(job.describe("n2"), connect_to("::1", job.port));
  const auto c = job.start(job.describe("n3"), connect_to("::1", job.port));
  job.loop.until([&] { return a->world && b->world && c->world; });
  CHECK(a->world->master_addr == "::1");
  CHECK(b->world->master_addr == "::1");
  CHECK(c->world->master_addr == "::1");
  CHECK(job.coordinator->common_address() == "::1");
  CHECK(b->client->local_address() == "::1");
}

TEST_CASE("People are shown who is here, from where, and who was turned away (I-1)") {
  Job job(3, 4);
  job.open();
  const auto a = job.local("n1");
  const auto b = job.remote("n2");
  NodeDescription other = job.describe("n3");
  other.max_restarts = 9;
  const auto refused = job.start(other, connect_to("127.0.0.1", job.port));
  const Fd other_version = connect_to("127.0.0.1", job.port);
  write_all(other_version, preamble(99));
  const Fd stranger = connect_to("127.0.0.1", job.port);
  write_all(stranger, "GET / HTTP/1.1\r\n\r\n");
  job.loop.until([&] { return a->table && b->table; });
  const RendezvousStatus& table = *b->table;
  CHECK(table == *a->table);
  CHECK(table.nodes_here == 2);
  REQUIRE(table.here.size() == 2);
  CHECK(table.here[0].host_name == "n1");
  CHECK(table.here[0].hosts_coordinator);
  CHECK(table.here[1].host_name == "n2");
  CHECK(table.here[1].address == "127.0.0.1");
  REQUIRE(table.refused.size() == 3);
  CHECK(table.refused[2].host_name == "n3");
  CHECK(table.refused[2].why.find("--max-restarts") != std::string::npos);
  CHECK(table.refused[1].why.find("version 99") != std::string::npos);
  CHECK(table.refused[0].why.find("does not speak ddprun's protocol") != std::string::npos);
  CHECK(table.left > 500s);
}

TEST_CASE("A replacement that comes before the loss is noticed waits for its rank") {
  Job job(2, 2);
  job.options.heartbeat_timeout = 400ms;
  job.open();
  const auto a = job.local("n1");
  NodeDescription ranked = job.describe("n2");
  ranked.node_rank = 1;
  // The old one says hello by hand and never beats: its machine is gone, its connection is not.
  const Fd old = connect_to("127.0.0.1", job.port);
  write_all(old, preamble() + encode(message::Hello{ranked}));
  job.loop.until([&] { return a->world.has_value(); });
  const auto replacement = job.start(ranked, connect_to("127.0.0.1", job.port));
  job.loop.until([&] { return replacement->table.has_value(); });
  CHECK(replacement->table->note.find("node rank 1 is taken by node n2") == 0);
  job.loop.until([&] { return a->told_to_stop.has_value(); });
  CHECK_FALSE(replacement->refused);
  a->client->workers_stopped(*a->told_to_stop, {}, {});
  job.loop.until([&] { return replacement->world.has_value(); });
  CHECK(replacement->world->group_rank == 1);
}

TEST_CASE("Who wants the rank of a node that lives is rejected as soon as that one is heard") {
  Job job(3, 3);
  job.options.heartbeat_timeout = 400ms;
  job.open();
  NodeDescription ranked = job.describe("n2");
  ranked.node_rank = 1;
  const auto holder = job.start(ranked, connect_to("127.0.0.1", job.port));
  job.loop.run_for(50ms);
  ranked.host_name = "n3";
  const auto other = job.start(ranked, connect_to("127.0.0.1", job.port));
  job.loop.until([&] { return other->refused.has_value(); });
  CHECK(other->refused->what == "node rank 1 is taken by node n2, which is alive");
  CHECK_FALSE(holder->gone);
}

TEST_CASE("A coordinator that accepts nobody any more leaves its port, and serves on who is here") {
  Job job(2, 2);
  job.open();
  const auto first = job.remote("n1");
  job.loop.until([&] { return first->table.has_value(); });
  const auto second = job.remote("n2");
  job.loop.until([&] { return second->world.has_value(); });
  const Fd silent = connect_to("127.0.0.1", job.port);
  job.loop.run_for(50ms);
  job.coordinator->close_port();
  CHECK(closed_by_peer(silent));
  const Listening next = listen_at("127.0.0.1", job.port);
  CHECK(next.socket);
  second->client->workers_finished(second->world->attempt, {});
  first->client->workers_finished(first->world->attempt, {});
  job.loop.until([&] { return first->summary.has_value() && second->summary.has_value(); });
  CHECK(first->summary->verdict == Verdict::succeeded);
}

TEST_CASE("Who resigns says farewell to whom it has answered, and resets the other connections") {
  Job job(2, 2);
  job.open();
  const auto answered = job.remote("n1");
  job.loop.until([&] { return answered->table.has_value(); });
  const Fd silent = connect_to("127.0.0.1", job.port);
  const Fd begins = connect_to("127.0.0.1", job.port);
  write_all(begins, preamble());
  job.loop.run_for(50ms);
  const Fd listener = job.coordinator->resign("another leads");
  job.loop.until([&] { return answered->gone.has_value(); });
  CHECK(answered->gone->what.find("another leads") != std::string::npos);
  for (const Fd* one : {&silent, &begins}) {
    char byte = 0;
    CHECK(::recv(one->get(), &byte, 1, MSG_DONTWAIT) < 0);
    CHECK(errno == ECONNRESET);
  }
}
