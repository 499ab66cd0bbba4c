// Real coordinator, real clients, loopback: one io_context.
#include "rendezvous/control/coordinator.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "rendezvous/control/coordinator_client.h"
#include "rendezvous/control/listener.h"
#include "rendezvous/protocol/frame.h"
#include "rendezvous/protocol/message_codec.h"
#include "tests/unit/control/job.h"
#include "tests/unit/control/orders_ignored.h"

using namespace ddprun;

namespace {

FailureRecord killed(int rank) {
  FailureRecord r;
  r.rank = rank;
  r.exit = {ExitStatus::Kind::signalled, 9};
  return r;
}

}  // namespace

TEST_CASE("Two agents join, fail, restart and finish, both get the same summary") {
  Job job(2, 2);
  job.open();
  const auto a = job.local("n1");
  const auto b = job.remote("n2");
  job.loop.until([&] { return a->world && b->world; });
  CHECK(a->world->group_rank == 0);
  CHECK(b->world->base_rank == 1);
  CHECK(a->world->master_port == 1000);
  CHECK(a->world->master_addr == "127.0.0.1");
  CHECK(b->world->master_addr == "127.0.0.1");
  a->client->workers_started(AttemptNumber{0});
  b->client->workers_started(AttemptNumber{0});

  b->client->worker_failed(AttemptNumber{0}, killed(1));
  job.loop.until([&] { return a->told_to_stop && b->told_to_stop; });
  CHECK(a->stop_reason == "rank 1 on n2 was killed by SIGKILL");
  a->client->workers_stopped(AttemptNumber{0}, {}, {});
  b->client->workers_stopped(AttemptNumber{0}, {killed(1)}, {});
  job.loop.until([&] { return a->assignments == 2 && b->assignments == 2; });
  CHECK(a->world->attempt == AttemptNumber{1});
  CHECK(a->world->restarts_used == 1);
  CHECK(b->world->master_port == 1001);

  a->client->workers_started(AttemptNumber{1});
  b->client->workers_started(AttemptNumber{1});
  TrainingProgress told;
  told.resumed_from = SnapshotNumber::epoch(20);
  a->client->workers_finished(AttemptNumber{1}, told);
  b->client->workers_finished(AttemptNumber{1}, {});
  job.loop.until([&] { return a->summary && b->summary; });
  for (const JobSummary* s : {&*a->summary, &*b->summary}) {
    CHECK(s->verdict == Verdict::succeeded);
    CHECK(s->attempts == 2);
    CHECK(s->restarts_used == 1);
    REQUIRE(s->incidents.size() == 1);
    CHECK(s->incidents[0].resumed_from == SnapshotNumber::epoch(20));
    CHECK(s->incidents[0].downtime.has_value());
    CHECK(s->incidents[0].records.at(0).blame == Blame::cause);
  }
  CHECK_FALSE(a->gone);
  bool drained = false;
  job.coordinator->on_drained([&] { drained = true; });
  job.loop.until([&] { return drained; }, 1s);
  CHECK(job.coordinator->drained());
}

TEST_CASE("An agent that has gone before its hello is read does not join") {
  Job job(2, 2);
  job.open();
  // As one that gave up while the coordinator's process stood still.
  Fd gone = connect_to("127.0.0.1", job.port);
  write_all(gone, preamble() + encode(message::Hello{job.describe("n2")}));
  gone.reset();
  const auto a = job.local("n1");
  const auto b = job.remote("n3");
  job.loop.until([&] { return a->world && b->world; });
  CHECK(a->world->world_size == 2);
  CHECK_FALSE(job.loop.logged("n2"));
  // One that stays is not taken for it.
  CHECK(job.loop.logged("n3"));
}

TEST_CASE("The coordinator is drained after a grace when an agent does not close") {
  Job job(1, 1);
  job.open();
  const Fd mute = connect_to("127.0.0.1", job.port);
  write_all(mute, preamble() + encode(message::Hello{job.describe("n1")}));
  job.loop.until([&] { return !job.stores.empty(); });
  write_all(mute, encode(message::Finished{AttemptNumber{0}, {}}));
  bool drained = false;
  job.coordinator->on_drained([&] { drained = true; });
  const auto start = std::chrono::steady_clock::now();
  job.loop.until([&] { return drained; }, 5s);
  CHECK(std::chrono::steady_clock::now() - start > 1s);
}

TEST_CASE("An agent that dies is lost at once, and the survivor goes on (I-8)") {
  Job job(1, 2);
  job.options.heartbeat_timeout = 60s;
  job.open();
  const auto a = job.remote("n1");
  auto b = job.remote("n2");
  job.loop.until([&] { return a->world && b->world; });
  const auto start = std::chrono::steady_clock::now();
  b.reset();
  job.loop.until([&] { return a->told_to_stop.has_value(); });
  CHECK(std::chrono::steady_clock::now() - start < job.options.heartbeat_timeout / 10);
  CHECK(a->stop_reason == "node n2 was lost (its connection closed)");
  a->client->workers_stopped(AttemptNumber{0}, {}, {});
  job.loop.until([&] { return a->assignments == 2; });
  CHECK(a->world->world_size == 1);
}

TEST_CASE("An agent that falls silent is lost after the heartbeat timeout") {
  Job job(1, 2);
  job.options.heartbeat_timeout = 200ms;
  job.open();
  const auto a = job.remote("n1");
  const Fd silent = connect_to("127.0.0.1", job.port);
  write_all(silent, preamble() + encode(message::Hello{job.describe("n2")}));
  job.loop.until([&] { return a->world.has_value(); });
  REQUIRE(a->world->world_size == 2);
  job.loop.until([&] { return a->told_to_stop.has_value(); });
  CHECK(a->stop_reason.starts_with("node n2 was lost (it was silent for 0.2"));
  CHECK_FALSE(a->gone);
}

TEST_CASE("An agent notices a coordinator that falls silent") {
  Loop loop;
  Listening listening = listen_at("127.0.0.1", 0);
  REQUIRE(listening.socket);
  Job job(1, 1);
  job.options.heartbeat_timeout = 200ms;
  const auto a = job.start(job.describe("n1"), connect_to("127.0.0.1", port_of(listening.socket)));
  const Fd server(::accept(listening.socket.get(), nullptr, nullptr));
  write_all(server, preamble() + encode(message::Accepted{}));
  job.loop.until([&] { return a->gone.has_value(); });
  CHECK(a->gone->what.starts_with("the coordinator was lost: it was silent for 0."));
  CHECK(a->gone->where == "coordinator at 127.0.0.1");
  // Its workers still run: not before they are gone may the coordinator, which perhaps hears it
  // well, take it for lost.
  job.loop.run_for(100ms);
  CHECK_FALSE(closed_by_peer(server));
  a->client.reset();
  job.loop.until([&] { return closed_by_peer(server); });
}

TEST_CASE("A cut-off agent knows it before the coordinator does (self-fencing)") {
  Job job(1, 1);
  job.options.heartbeat_timeout = 300ms;
  job.open();
  // A relay that can be cut: what the agent and the coordinator send goes through it.
  Listening relay = listen_at("127.0.0.1", 0);
  const auto a = job.start(job.describe("n1"), connect_to("127.0.0.1", port_of(relay.socket)));
  const Fd near(::accept(relay.socket.get(), nullptr, nullptr));
  const Fd far = connect_to("127.0.0.1", job.port);
  const auto pump = [](const Fd& from, const Fd& to) {
    char bytes[4096];
    const ssize_t n = ::recv(from.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) {
      write_all(to, {bytes, static_cast<std::size_t>(n)});
    }
  };
  const bool answers_pass = GENERATE(true, false);
  bool cut = false;
  const auto start = std::chrono::steady_clock::now();
  bool agent_knew_first = false;
  job.loop.until([&] {
    cut = cut || std::chrono::steady_clock::now() - start > 500ms;
    if (!cut) {
      pump(near, far);
    }
    if (!cut || answers_pass) {
      pump(far, near);
    }
    agent_knew_first = agent_knew_first || (a->gone && !job.loop.logged("lost node"));
    return job.loop.logged("lost node");
  });
  CHECK(a->world.has_value());
  CHECK(agent_knew_first);
}

TEST_CASE("Both sides beat, so an idle connection stays") {
  Job job(2, 2);
  job.options.heartbeat_timeout = 1s;  // a busy machine may keep a process waiting for long
  job.open();
  const auto a = job.local("n1");
  const auto b = job.remote("n2");
  job.loop.until([&] { return a->world && b->world; });
  job.loop.run_for(2500ms);
  CHECK_FALSE(b->gone);
  CHECK_FALSE(a->told_to_stop);
}

TEST_CASE("The shorter of two heartbeat timeouts sets the beat of both") {
  Job job(1, 1);
  job.options.heartbeat_timeout = 1s;
  job.open();
  job.options.heartbeat_timeout = 60s;  // of the agent
  const auto a = job.remote("n1");
  job.loop.until([&] { return a->world.has_value(); });
  job.loop.run_for(2500ms);
  CHECK_FALSE(a->gone);
  CHECK_FALSE(job.loop.logged("lost node"));
}

TEST_CASE("A node with other options is rejected with a reason, and the job goes on") {
  Job job(2, 2);
  job.open();
  const auto a = job.remote("n1");
  job.loop.until([&] { return job.loop.logged("welcome"); });
  NodeDescription wrong = job.describe("n2");
  wrong.job_id = "other";
  const auto b = job.start(wrong, connect_to("127.0.0.1", job.port));
  job.loop.until([&] { return b->refused.has_value(); });
  CHECK(b->refused->what == "this endpoint serves the job 'job', not 'other'");
  CHECK(b->refused->where == "coordinator at 127.0.0.1");
  CHECK_FALSE(b->gone);
  const auto c = job.remote("n3");
  job.loop.until([&] { return a->world && c->world; });
}

TEST_CASE("Another protocol version is rejected by naming both") {
  Job job(1, 1);
  job.open();
  const Fd other = connect_to("127.0.0.1", job.port);
  write_all(other, preamble(77));
  std::string received;
  job.loop.until([&] {
    char bytes[512];
    const ssize_t n = ::recv(other.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    received.append(bytes, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return n == 0;
  });
  CHECK(received.substr(0, kPreambleBytes) == preamble());
  CHECK(received.find("version 77") != std::string::npos);
  CHECK(received.find("speaks version " + std::to_string(kProtocolVersion)) != std::string::npos);
}

TEST_CASE("Strangers do not disturb the job") {
  Job job(2, 2);
  job.open();
  const auto a = job.remote("n1");
  std::vector<Fd> strangers;
  for (int i = 0; i < 300; ++i) {  // silent
    strangers.push_back(connect_to("127.0.0.1", job.port));
  }
  const Fd http = connect_to("127.0.0.1", job.port);
  write_all(http, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  const Fd garbage = connect_to("127.0.0.1", job.port);
  write_all(garbage, std::string(5000, '\xee'));
  const Fd flood = connect_to("127.0.0.1", job.port);
  write_all(flood, preamble() + std::string(5000, '\xee'));
  const Fd no_hello = connect_to("127.0.0.1", job.port);
  write_all(no_hello, preamble() + encode(message::StopRequest{15, {}, {}}));
  job.loop.until([&] {
    return closed_by_peer(http) && closed_by_peer(garbage) && closed_by_peer(flood) &&
           closed_by_peer(no_hello);
  });
  CHECK(job.loop.logged("does not speak ddprun's protocol"));
  const auto b = job.remote("n2");
  job.loop.until([&] { return a->world && b->world; });
  CHECK_FALSE(a->told_to_stop);
}

TEST_CASE("The oldest silent connections make room for new ones") {
  Job job(1, 1);
  job.open();
  // A quarter of the descriptors is the bound; a connection has both of its ends in this process.
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit low = before;
  low.rlim_cur = 800;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  std::vector<Fd> silent;
  for (int i = 0; i < 300; ++i) {
    silent.push_back(connect_to("127.0.0.1", job.port));
  }
  job.loop.until([&] { return closed_by_peer(silent.front()); });
  CHECK_FALSE(closed_by_peer(silent.back()));
  const auto a = job.remote("n1");
  job.loop.until([&] { return a->world.has_value(); });
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("A want of descriptors is logged once, until connections are accepted again") {
  Job job(1, 1);
  job.open();
  job.loop.run_for(10ms);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const std::string complaint = "cannot accept connections: Too many open files";
  std::vector<Fd> clients;
  for (const int times : {1, 2}) {
    // This end has the last descriptor, so there is none for the other end.
    clients.push_back(connect_to("127.0.0.1", job.port));
    rlimit low = before;
    low.rlim_cur = static_cast<rlim_t>(clients.back().get()) + 1;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
    job.loop.run_for(450ms);  // several tries
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(job.loop.times_logged(complaint) == times);
    job.loop.run_for(150ms);
    CHECK(job.loop.times_logged(complaint) == times);
    write_all(clients.back(), preamble() + encode(message::Hello{job.describe("other")}));
    job.loop.run_for(50ms);
  }
}

TEST_CASE("A silent connection is closed after some seconds") {
  Job job(1, 1);
  job.open();
  const Fd silent = connect_to("127.0.0.1", job.port);
  const auto start = std::chrono::steady_clock::now();
  job.loop.until([&] { return closed_by_peer(silent); }, 8s);
  CHECK(std::chrono::steady_clock::now() - start > 3s);
}

TEST_CASE("A store client at the endpoint is handed over with the bytes it sent") {
  Job job(1, 1);
  Fd given;
  std::string first;
  job.hooks.foreign_connection = [&](Fd fd, std::string bytes) {
    given = std::move(fd);
    first = std::move(bytes);
  };
  job.open();
  SECTION("it spoke") {
    const Fd client = connect_to("127.0.0.1", job.port);
    write_all(client, std::string("\x03\x05\0\0\0", 5));
    job.loop.until([&] { return bool(given); });
    CHECK(first == std::string("\x03\x05\0\0\0", 5));
    write_all(given, "back");
    char bytes[8];
    CHECK(::recv(client.get(), bytes, sizeof bytes, 0) == 4);
  }
  SECTION("the silent second connection of PyTorch 1.13 is kept") {
    const Fd client = connect_to("127.0.0.1", job.port);
    job.loop.until([&] { return bool(given); }, 8s);
    CHECK(first.empty());
    CHECK_FALSE(closed_by_peer(client));
  }
  SECTION("a web client is not") {
    const Fd client = connect_to("127.0.0.1", job.port);
    write_all(client, "GET / HTTP/1.1\r\n\r\n");
    job.loop.until([&] { return closed_by_peer(client); });
    CHECK_FALSE(given);
  }
}

TEST_CASE("A store that cannot be opened ends the job with its reason") {
  Job job(1, 1);
  job.hooks.open_store = [](AttemptNumber, const std::vector<std::string>&) {
    return Result<std::uint16_t>(Error{"no port is free", "store", {}});
  };
  job.open();
  const auto a = job.local("n1");
  job.loop.until([&] { return a->summary.has_value(); });
  CHECK(a->summary->verdict == Verdict::impossible);
  CHECK(a->summary->reason == "store: no port is free");
  CHECK_FALSE(a->world);
}

TEST_CASE("A stop request and a give-up end the job everywhere") {
  Job job(2, 2);
  job.open();
  const auto a = job.local("n1");
  const auto b = job.remote("n2");
  job.loop.until([&] { return a->world && b->world; });
  Verdict expected = Verdict::stopped;
  SECTION("signal") {
    b->client->request_stop(15, StopWish::end);
  }
  SECTION("give up") {
    expected = Verdict::impossible;
    b->client->give_up(Error{"no such file", "./train", {}});
  }
  job.loop.until([&] { return a->told_to_stop && b->told_to_stop; });
  a->client->workers_stopped(AttemptNumber{0}, {}, {});
  b->client->workers_stopped(AttemptNumber{0}, {}, {});
  job.loop.until([&] { return a->summary && b->summary; });
  CHECK(a->summary->verdict == expected);
}

TEST_CASE("An agent may let go of its client inside any order") {
  Job job(1, 1);
  job.open();
  auto a = job.local("n1");
  Agent* agent = a.get();
  job.loop.until([&] { return agent->world.has_value(); });
  struct LetsGo : OrdersIgnored {
    std::unique_ptr<CoordinatorClient> client;
    std::optional<RendezvousStatus> table;
    bool is_lost = false;
    void waiting(const RendezvousStatus& told) override {
      const RendezvousStatus copy = told;  // NOLINT: the table goes with the client
      client.reset();
      table = copy;
    }
    void lost(const CoordinatorLost&) override { is_lost = true; }
  } b;
  b.client = CoordinatorClient::create(job.loop.io, connect_to("127.0.0.1", job.port), std::nullopt,
                                       job.describe("n2"), 3s, b, job.loop.log);
  job.loop.until([&] { return b.table.has_value(); });
  CHECK(b.table->note.find("spare") != std::string::npos);
  CHECK_FALSE(b.is_lost);
}

TEST_CASE("An idle job of two nodes turns the loop fewer than 20 times in three seconds") {
  Job job(2, 2);
  job.open();
  const auto a = job.local("n1");
  const auto b = job.remote("n2");
  job.loop.until([&] { return a->world && b->world; });
  job.loop.io.restart();
  const std::size_t turns = job.loop.io.run_for(3s);
  // Of the coordinator and both agents together, however busy the machine is.
  CHECK(turns < 20);
}

TEST_CASE("An agent that leaves its coordinator obeys none of its orders any more") {
  Job job(2, 2);
  job.open();
  const auto a = job.local("n1");
  const auto b = job.remote("n2");
  job.loop.until([&] { return a->world && b->world; });
  b->client->leave();
  a->client->request_stop(15, StopWish::end);
  job.loop.until([&] { return a->told_to_stop.has_value(); });
  a->client->workers_stopped(AttemptNumber{0}, {}, {});
  b->client.reset();  // only now its connection closes
  job.loop.until([&] { return a->summary.has_value(); });
  CHECK(a->summary->verdict == Verdict::stopped);
  CHECK_FALSE(b->told_to_stop);
  CHECK_FALSE(b->summary);
}
