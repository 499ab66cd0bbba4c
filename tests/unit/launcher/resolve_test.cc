#include "launcher/resolve.h"

#include <catch2/catch.hpp>

#include "rendezvous/membership/node_description.h"
#include "tests/unit/launcher/resolve_words.h"

using namespace ddprun;
using namespace ddprun::test;
using std::chrono::seconds;

namespace {

Launch good(const std::string& line, const Variables& variables = {}, const Machine& machine = {}) {
  INFO(line);
  auto launch = resolved(line, variables, machine);
  if (!launch) {
    FAIL(launch.error().sentence());
  }
  return *std::move(launch);
}

Error bad(const std::string& line, const Variables& variables = {}, const Machine& machine = {}) {
  INFO(line);
  const auto launch = resolved(line, variables, machine);
  REQUIRE_FALSE(launch.has_value());
  CHECK(launch.error().sentence().find('\n') == std::string::npos);
  return launch.error();
}

}  // namespace

TEST_CASE("nnodes is a number or a range", "[launcher]") {
  CHECK(good("p").job.min_nodes == 1);
  CHECK(good("p").job.max_nodes == 1);
  const JobSpec range = good("--nnodes 2:4 --rdzv-endpoint h p").job;
  CHECK(range.min_nodes == 2);
  CHECK(range.max_nodes == 4);
  CHECK(good("--nnodes 3 --rdzv-endpoint h p").job.min_nodes == 3);
  CHECK(good("--nnodes 262144 --rdzv-endpoint h p").job.max_nodes == kNodesMax);
}

TEST_CASE("a value that makes no sense is told by option, value and remedy", "[launcher]") {
  struct Row {
    const char* line;
    const char* where;
    const char* what;
  };
  const Row rows[] = {
      {"--nnodes 1:2:3 p", "--nnodes", "'1:2:3' is neither N nor MIN:MAX"},
      {"--nnodes two p", "--nnodes", "'two' is neither"},
      {"--nnodes= p", "--nnodes", "'' is neither"},
      {"--nnodes 2: p", "--nnodes", "'2:' is neither"},
      {"--nnodes 4:2 p", "--nnodes", "minimum of 4 nodes is above the maximum of 2"},
      {"--nnodes 0 p", "--nnodes", "0 nodes"},
      {"--nnodes=-1:2 p", "--nnodes", "-1 nodes"},
      {"--nnodes 262145 p", "--nnodes", "above 262144 nodes"},
      {"--max-restarts -1 p", "--max-restarts", "-1"},
      {"--nproc-per-node 0 p", "--nproc-per-node", "0 workers"},
      {"--nproc-per-node -2 p", "--nproc-per-node", "-2 workers"},
      {"--nproc-per-node 4097 p", "--nproc-per-node", "4097 workers"},
      {"--nproc-per-node foo p", "--nproc-per-node", "'foo' is not a number of workers"},
      {"--nproc-per-node xpu p", "--nproc-per-node", "XPU"},
      {"--nproc-per-node gpu p", "--nproc-per-node", "no libnvidia-ml.so.1"},
      {"--monitor-interval 0 p", "--monitor-interval", "above 0"},
      {"--monitor-interval nan p", "--monitor-interval", "above 0"},
      {"--logs-specs mine p", "--logs-specs", "'mine'"},
      {"--numa-binding node p", "--numa-binding", "NUMA"},
      {"--redirects 4 p", "--redirects", "'4'"},
      {"--metrics-port 65536 p", "--metrics-port", "65536 is not a port"},
      {"--metrics-port -1 p", "--metrics-port", "-1 is not a port"},
      {"--metrics-port 0 --metrics-address h p", "--metrics-address", "'h' is not a numeric"},
      {"--metrics-address ::1 p", "--metrics-address", "without --metrics-port"},
      {"-r 0:1, p", "--redirects", "'0:1,'"},
      {"-t both p", "--tee", "'both'"},
      {"--local-ranks-filter a p", "--local-ranks-filter", "'a'"},
      {"--local-ranks-filter -1 p", "--local-ranks-filter", "'-1'"},
      {"--rdzv-backend c10d --rdzv-endpoint h --rdzv-id= p", "--rdzv-id", "'' cannot name a job"},
      {"--rdzv-backend c10d --rdzv-endpoint h --rdzv-id a\xff p", "--rdzv-id", "cannot name a job"},
      {"--signals-to-handle SIGKILL p", "--signals-to-handle", "SIGKILL"},
      {"--signals-to-handle SIGTERM,SIGSTOP p", "--signals-to-handle", "SIGSTOP"},
      {"--shutdown-timeout -1 p", "--shutdown-timeout", "-1 seconds"},
      {"--join-timeout 0 p", "--join-timeout", "above 0"},
      {"--heartbeat-timeout -3 p", "--heartbeat-timeout", "above 0"},
      {"--heartbeat-timeout nan p", "--heartbeat-timeout", "above 0"},
      {"-m --no-python p", "--no-python", "--module"},
      {"nowhere", "nowhere", "not found"},
  };
  for (const Row& row : rows) {
    INFO(row.line);
    const Error error = bad(row.line);
    CHECK(error.where == row.where);
    INFO(error.sentence());
    CHECK(error.what.find(row.what) != std::string::npos);
    CHECK_FALSE(error.todo.empty());
  }
}

TEST_CASE("a value that came from a PET_ variable is told by that name", "[launcher]") {
  CHECK(bad("p", {{"PET_NNODES", "4:2"}}).where == "PET_NNODES");
  CHECK(bad("p", {{"PET_REDIRECTS", "9"}}).where == "PET_REDIRECTS");
  CHECK(bad("--nnodes 4:2 p", {{"PET_NNODES", "1"}}).where == "--nnodes");
}

TEST_CASE("the largest and the smallest number of workers pass", "[launcher]") {
  CHECK(good("--nproc-per-node 1 p").job.local_world_size == 1);
  CHECK(good("--nproc-per-node 4096 p").job.local_world_size == kLocalWorldSizeMax);
}

TEST_CASE("the machine is only asked what an option needs", "[launcher]") {
  const auto ask = [](const std::string& line, Machine& machine) {
    const auto parsed = parse(line);
    return resolve(std::get<Options>(parsed), environment_of({}), machine.host());
  };
  Machine machine;
  REQUIRE(ask("--nproc-per-node 3 p", machine).has_value());
  CHECK(machine.asked_cpus + machine.asked_gpus == 0);
  REQUIRE(ask("--nproc-per-node cpu p", machine).has_value());
  CHECK(machine.asked_cpus == 1);
  CHECK(machine.asked_gpus == 0);
  machine.gpus = 8;
  REQUIRE(ask("--nproc-per-node auto p", machine).has_value());
  CHECK(machine.asked_cpus == 1);
  CHECK(machine.asked_gpus == 1);
}

TEST_CASE("cpu, gpu and auto count this machine and say so at level info", "[launcher]") {
  Machine machine;
  machine.gpus = 8;
  CHECK(good("--nproc-per-node cpu p", {}, machine).job.local_world_size == 12);
  CHECK(good("--nproc-per-node gpu p", {}, machine).job.local_world_size == 8);
  const Launch with_gpus = good("--nproc-per-node auto p", {}, machine);
  CHECK(with_gpus.job.local_world_size == 8);
  REQUIRE(with_gpus.notices.size() == 1);
  CHECK(with_gpus.notices[0].level == LogLevel::info);
  CHECK(with_gpus.notices[0].text.find("8 workers") != std::string::npos);
  machine.gpus = 0;
  CHECK(good("--nproc-per-node auto p", {}, machine).job.local_world_size == 12);
}

TEST_CASE("a node with more processors than workers may be is cut, not refused", "[launcher]") {
  Machine machine;
  machine.cpus = 100000;
  CHECK(good("--nproc-per-node cpu p", {}, machine).job.local_world_size == kLocalWorldSizeMax);
}

TEST_CASE("options without an effect are accepted, and have none", "[launcher]") {
  // What a job is made of, as far as an option could touch it.
  const auto made = [](const std::string& options) {
    const Launch launch = good(options + "--standalone p x");
    const JobSpec& job = launch.job;
    return std::tuple(launch.log_level, launch.notices.size(), job.min_nodes, job.max_nodes,
                      job.max_restarts, job.backend, job.endpoint.host, job.endpoint.port,
                      job.join_timeout, job.last_call_timeout, job.heartbeat_timeout,
                      job.local_world_size, job.program.path, job.program.arguments, job.role,
                      job.shutdown_timeout, job.signals_to_handle, job.event_log, job.logs.dir,
                      job.logs.redirects.of(0), job.logs.tee.of(0), job.warm_workers);
  };
  for (const std::string option : {"--monitor-interval 5 ", "--start-method forkserver ",
                                   "--event-log-handler console ", "--logs-specs default "}) {
    INFO(option);
    CHECK((made(option) == made("")));
  }
  CHECK_FALSE((made("--max-restarts 1 ") == made("")));
}

TEST_CASE("output options and variables reach the log spec", "[launcher]") {
  const Launch launch = good(
      "-r 3 --tee 0:1 --log-dir /var/log --local-ranks-filter 0,2 "
      "--duplicate-stdout-filters a,,b,c --duplicate-stderr-filters err p",
      {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "${rank}: "},
       {"TORCHELASTIC_ERROR_FILE", "/tmp/err.json"}});
  const LogSpec& logs = launch.job.logs;
  CHECK(logs.dir == "/var/log");
  CHECK(logs.redirects.of(5) == Streams::all);
  CHECK(logs.tee.of(0) == Streams::out);
  CHECK(logs.tee.of(1) == Streams::none);
  CHECK(logs.local_ranks_filter == std::vector<int>{0, 2});
  CHECK(logs.stdout_filters == std::vector<std::string>{"a,b", "c"});
  CHECK(logs.stderr_filters == std::vector<std::string>{"err"});
  CHECK(logs.line_prefix_template == "${rank}: ");
  CHECK(launch.job.error_file == "/tmp/err.json");
  CHECK_FALSE(good("p").job.logs.line_prefix_template);
  CHECK(good("p").job.logs.fold == Folding::on_terminals);
  CHECK(good("--fold p").job.logs.fold == Folding::always);
  CHECK(good("--no-fold p").job.logs.fold == Folding::never);
  CHECK(good("--no-fold --fold p").job.logs.fold == Folding::never);
  CHECK(good("p").job.event_log.empty());
  CHECK(good("--event-log /a/b.jsonl p").job.event_log == "/a/b.jsonl");
  CHECK(good("p", {{"PET_NO_FOLD", "1"}}).job.logs.fold == Folding::never);
  CHECK_FALSE(good("p").job.metrics);
  CHECK(good("--metrics-port 0 p").job.metrics->address == "127.0.0.1");
  const JobSpec open = good("--metrics-address :: p", {{"PET_METRICS_PORT", "65535"}}).job;
  CHECK((open.metrics->address == "::" && open.metrics->port == 65'535));
}

TEST_CASE("signals are taken by name, once each, and unknown names are only warned about",
          "[launcher]") {
  const JobSpec standard = good("p").job;
  CHECK(standard.signals_to_handle == std::vector<int>{15, 2, 1, 3});
  CHECK(standard.signals_to_handle_text == "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  const Launch launch = good("--signals-to-handle SIGUSR1,SIGBREAK,TERM,SIGTERM p");
  CHECK(launch.job.signals_to_handle == std::vector<int>{10, 15});
  REQUIRE(launch.notices.size() == 1);
  CHECK(launch.notices[0].level == LogLevel::warning);
  CHECK(launch.notices[0].text.find("SIGBREAK") != std::string::npos);
  CHECK(good("--signals-to-handle= p").job.signals_to_handle.empty());
}

TEST_CASE("the shutdown timeout is the option's, then the variable's, then 30 s", "[launcher]") {
  const Variables variable{{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}};
  CHECK(good("p").job.shutdown_timeout == seconds(30));
  CHECK(good("p", variable).job.shutdown_timeout == seconds(7));
  CHECK(good("--shutdown-timeout 0 p", variable).job.shutdown_timeout == seconds(0));
  CHECK(good("p", {{"PET_SHUTDOWN_TIMEOUT", "9"}, {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}})
            .job.shutdown_timeout == seconds(9));
  for (const char* text : {"soon", "-1", "1.5"}) {
    CHECK(bad("p", {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", text}}).where ==
          "TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
  }
}

TEST_CASE("what may differ between nodes is named by facts, variables and beginnings",
          "[launcher]") {
  CHECK_FALSE(good("p").job.require_same_env);
  CHECK(good("p").job.same_env_ignore.empty());
  const JobSpec job = good("--require-same-env --same-env-ignore gpu,NCCL_IB_* p").job;
  CHECK(job.require_same_env);
  CHECK(job.same_env_ignore == std::vector<std::string>{"gpu", "NCCL_IB_*"});
  CHECK(good("p", {{"PET_REQUIRE_SAME_ENV", "1"}}).job.require_same_env);
  const Error error = bad("--same-env-ignore gpu,gpus p");
  CHECK(error.where == "--same-env-ignore");
  CHECK(error.what == "'gpus' is never compared");
  CHECK(bad("p", {{"PET_SAME_ENV_IGNORE", "PATH"}}).where == "PET_SAME_ENV_IGNORE");
}

TEST_CASE("LOGLEVEL is one of Python's levels", "[launcher]") {
  CHECK(good("p").log_level == LogLevel::warning);
  CHECK(good("p", {{"LOGLEVEL", ""}}).log_level == LogLevel::warning);
  CHECK(good("p", {{"LOGLEVEL", "INFO"}}).log_level == LogLevel::info);
  CHECK(good("p", {{"LOGLEVEL", "debug"}}).log_level == LogLevel::debug);
  CHECK(good("p", {{"LOGLEVEL", "CRITICAL"}}).log_level == LogLevel::critical);
  CHECK(bad("p", {{"LOGLEVEL", "loud"}}).where == "LOGLEVEL");
}

TEST_CASE("the name and the flags decide what kind of program it is", "[launcher]") {
  struct Row {
    const char* line;
    ProgramKind kind;
  };
  const Row rows[] = {{"train.py a", ProgramKind::python_script},
                      {"dir/train.py a", ProgramKind::python_script},
                      {"train a", ProgramKind::executable},
                      {"train.pyx a", ProgramKind::executable},
                      {"--no-python train.py a", ProgramKind::executable},
                      {"--no-python train a", ProgramKind::executable},
                      {"-m pkg.train a", ProgramKind::python_module},
                      {"-m train.py a", ProgramKind::python_module},
                      {"--run-path train a", ProgramKind::python_script},
                      {"--run-path --no-python train a", ProgramKind::python_script},
                      {"--run-path --no-python -m train a", ProgramKind::python_script}};
  for (const Row& row : rows) {
    INFO(row.line);
    Machine machine;
    const Variables variables{{"PATH", "/a:/b"}, {"PYTHON_EXEC", "py"}};
    const auto parsed = parse(row.line, variables);
    const auto launch =
        resolve(std::get<Options>(parsed), environment_of(variables), machine.host());
    REQUIRE(launch.has_value());
    CHECK(machine.requested.kind == row.kind);
    CHECK(machine.requested.arguments == std::vector<std::string>{"a"});
    CHECK(machine.requested.python == "py");
    CHECK(machine.requested.search_path == "/a:/b");
    CHECK(machine.requested.beside_dir == "/opt/ddprun/bin");
    CHECK(machine.requested.current_dir == "/home/me");
  }
}

TEST_CASE("plain values reach the job spec", "[launcher]") {
  const JobSpec job =
      good("--role trainer --max-restarts 3 --virtual-local-rank --local-addr 10.0.0.7 p x y").job;
  CHECK(job.role == "trainer");
  CHECK(job.max_restarts == 3);
  CHECK(job.virtual_local_rank);
  CHECK(job.local_addr == "10.0.0.7");
  CHECK(job.program.path == "/bin/p");
  CHECK(job.program.arguments == std::vector<std::string>{"x", "y"});
  CHECK(job.program.display_name == "p");
}

TEST_CASE(
    "Option --legacy-launch asks for the local rank among the arguments, --use-env does not") {
  Machine machine;
  const auto requested = [&machine](const std::string& line) {
    const auto parsed = parse(line);
    const auto launch = resolve(std::get<Options>(parsed), environment_of({}), machine.host());
    REQUIRE(launch.has_value());
    return machine.requested.local_rank_argument;
  };
  CHECK(requested("--legacy-launch train.py --lr 1"));
  CHECK(requested("--legacy-launch -m pkg.train"));
  CHECK_FALSE(requested("--legacy-launch --use-env train.py"));
  CHECK_FALSE(requested("train.py"));
  const auto refused = resolved("--legacy-launch --no-python train");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().sentence().find("--use-env") != std::string::npos);
}

TEST_CASE("file timers are wanted by their variable alone") {
  CHECK_FALSE(good("p").job.timer_file);
  CHECK_FALSE(good("p", {{"TORCHELASTIC_TIMER_FILE", "/tmp/t"}}).job.timer_file);
  CHECK(good("p", {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}}).job.timer_file == "");
  CHECK(good("p", {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}, {"TORCHELASTIC_TIMER_FILE", "/tmp/t"}})
            .job.timer_file == "/tmp/t");
  CHECK_FALSE(good("p", {{"TORCHELASTIC_ENABLE_FILE_TIMER", "0"}}).job.timer_file);
}

TEST_CASE("warm workers are for Python programs that may start again", "[launcher]") {
  CHECK_FALSE(good("--max-restarts 1 p.py").job.warm_workers);
  CHECK(good("--max-restarts 1 --warm-workers p.py").job.warm_workers);
  CHECK(good("--max-restarts 1 --warm-workers -m p").job.warm_workers);
  CHECK(good("--nnodes 1:2 --rdzv-endpoint h --warm-workers p.py").job.warm_workers);
  CHECK(good("--max-restarts 1 p.py", {{"PET_WARM_WORKERS", "1"}}).job.warm_workers);

  const Launch in_vain = good("--warm-workers p.py");
  CHECK_FALSE(in_vain.job.warm_workers);
  REQUIRE_FALSE(in_vain.notices.empty());
  CHECK(in_vain.notices.back().text.find("no second attempt") != std::string::npos);

  const Error native = bad("--max-restarts 1 --warm-workers train");
  CHECK(native.where == "--warm-workers");
  CHECK(native.what.find("'train' does not run under Python") != std::string::npos);
  CHECK(bad("--max-restarts 1 --no-python --warm-workers p.py").where == "--warm-workers");
}

TEST_CASE("what a warm worker imports beside PyTorch is a list of packages", "[launcher]") {
  const std::string warm = "--max-restarts 1 --warm-workers --warm-imports ";
  CHECK(good(warm + "torchvision,pandas p.py").job.warm_imports ==
        std::vector<std::string>{"torchvision", "pandas"});
  CHECK(good("--max-restarts 1 --warm-workers p.py").job.warm_imports.empty());
  for (const char* name : {"a.b", "3d", "a-b", "/x"}) {
    const Error error = bad(warm + name + " p.py");
    CHECK(error.where == "--warm-imports");
    CHECK(error.what.find("is not the name of a package") != std::string::npos);
  }
  CHECK(bad("--warm-imports pandas p.py").what == "without --warm-workers it has no effect");
}

TEST_CASE("a wish for a health check server is answered, and ends nothing", "[launcher]") {
  for (const char* port : {"8080", "eighty"}) {
    const Launch launch = good("p", {{"TORCHELASTIC_HEALTH_CHECK_PORT", port}});
    REQUIRE(launch.notices.size() == 1);
    CHECK(launch.notices[0].level == LogLevel::warning);
    CHECK(launch.notices[0].text.find(port) != std::string::npos);
  }
}
