// What a user sees of a bad command line: the built ddprun, its exit code, one sentence on stderr.
#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/support/bin_dir.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using Words = std::vector<std::string>;

/// ddprun with these words and a plain PATH.
Finished run_ddprun(Words words, std::map<std::string, std::string> variables = {}) {
  words.insert(words.begin(), "ddprun");
  variables.insert({"PATH", "/usr/bin:/bin"});
  return run({.argv = std::move(words), .environment = std::move(variables)});
}

/// It failed with this code: nothing on stdout, and one sentence on stderr, which says `what`.
void check_refused(const Finished& outcome, int exit_code, const std::string& what) {
  CHECK(outcome.exit_code == exit_code);
  CHECK(outcome.out.empty());
  check_one_sentence(outcome.err);
  CHECK_THAT(outcome.err, Catch::Contains(what));
}

}  // namespace

TEST_CASE("a bad command line ends in one sentence and torchrun's exit code", "[e2e][launcher]") {
  struct Row {
    Words words;
    int exit_code;
    const char* says;
  };
  const Row rows[] = {
      {{}, 2, "no program"},
      {{"--nnodes", "2"}, 2, "no program"},
      {{"--bogus", "true"}, 2, "--bogus: unknown option"},
      {{"--nproc-per-nod3=2", "true"}, 2, "did you mean --nproc-per-node?"},
      {{"--rdzv", "x", "true"}, 2, "--rdzv-endpoint, --rdzv-backend"},
      {{"--max-restarts", "many", "true"}, 2, "'many' is not a whole number"},
      {{"--nnodes"}, 2, "--nnodes: the value is missing"},
      {{"--standalone=1", "true"}, 2, "takes no value"},
      {{"--start-method", "clone", "true"}, 2, "spawn, fork, forkserver"},
      {{"--nnodes", "4:2", "true"}, 1, "--nnodes: the minimum of 4 nodes is above"},
      {{"--nnodes", "1:2:3", "true"}, 1, "neither N nor MIN:MAX"},
      {{"--nproc-per-node", "0", "true"}, 1, "--nproc-per-node: a node cannot have 0 workers"},
      {{"--nproc-per-node", "foo", "true"}, 1, "'foo'"},
      {{"--max-restarts", "-1", "true"}, 1, "--max-restarts"},
      {{"--rdzv-endpoint", "127.0.0.1:http", "true"}, 1, "the port 'http'"},
      {{"--rdzv-endpoint", "127.0.0.1:70000", "true"}, 1, "the port '70000'"},
      {{"--rdzv-backend", "etcd", "--rdzv-endpoint", "h:1", "true"}, 1, "etcd"},
      {{"--rdzv-conf", "is_host", "true"}, 1, "'is_host' has no value"},
      {{"-r", "7", "true"}, 1, "--redirects: '7'"},
      {{"--numa-binding", "node", "true"}, 1, "NUMA"},
      {{""}, 1, "the name of the program is empty"},
      {{"--witness", "--rdzv-endpoint", "h", "true"}, 1, "--witness: a witness runs no workers"},
      {{"-m", "--no-python", "true"}, 1, "--module"},
      {{"--hostfile", "/", "true"}, 1, "--hostfile: '/' cannot be read: it is a directory"},
      {{"--rdzv-endpoint", "h", "--rdzv-id", "a\nb\x1b[2J", "true"}, 1, "'a?b?[2J' cannot name"},
  };
  for (const Row& row : rows) {
    std::string line = "ddprun";
    for (const std::string& word : row.words) {
      line += " " + word;
    }
    INFO(line);
    check_refused(run_ddprun(row.words), row.exit_code, row.says);
  }
}

TEST_CASE("a missing program is told with every place that was looked at", "[e2e][launcher]") {
  const Finished by_name = run_ddprun({"--standalone", "no-such-program"});
  check_refused(by_name, 1, "no-such-program");
  CHECK_THAT(by_name.err, Catch::Contains("/usr/bin:/bin") && Catch::Contains(bin_dir()));
  check_refused(run_ddprun({"--standalone", "/no/such/program"}), 1,
                "/no/such/program: there is no such file");
  check_refused(run_ddprun({"--standalone", "/no/such/train.py"}), 1, "/no/such/train.py");
}

TEST_CASE("a program that cannot be executed is told with the reason", "[e2e][launcher]") {
  const TempDir dir;
  const std::string plain = dir.write("plain", "text\n");
  check_refused(run_ddprun({"--standalone", plain}), 1, plain + ": it is not executable");
  check_refused(run_ddprun({"--standalone", dir.file("")}), 1, "it is a directory");
}

TEST_CASE("every time may be 2147483647, or more: for ever", "[e2e][launcher]") {
  // Two nodes and a restart, so that every one of the times is sent, waited for or counted with.
  for (const std::string& time : {std::string("2147483647"), std::string(30, '9')}) {
    INFO(time);
    Cluster cluster(
        {.workers_per_node = 1,
         .options = {"--rdzv-conf",
                     "join_timeout=" + time + ",last_call_timeout=" + time + ",timeout=" + time +
                         ",keep_alive_interval=" + time + ",keep_alive_max_attempt=" + time,
                     "--join-timeout", time, "--heartbeat-timeout", time, "--preempt-grace",
                     time + "d", "--hang-timeout", time + "d," + time + "d", "--deadline",
                     time + "s", "--restart-window", "3/" + time + "d", "--monitor-interval", time,
                     "--max-restarts", "1"},
         .program = shell("exit $((1 - TORCHELASTIC_RESTART_COUNT))"),
         .environment = {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", time}}});
    cluster.start_all();
    const auto codes = cluster.exit_codes();
    INFO(cluster.report());
    CHECK(codes == std::vector{0, 0});
  }
  const Finished alone =
      run_ddprun({"--shutdown-timeout", "2147483647", "--join-timeout", "inf", "true"});
  CHECK(alone.exit_code == 0);
  CHECK(alone.err.empty());
}

TEST_CASE("a heartbeat timeout that no node can keep is refused", "[e2e][launcher]") {
  for (const char* seconds : {"0.001", "0.05", "0.0994"}) {
    INFO(seconds);
    check_refused(run_ddprun({"--heartbeat-timeout", seconds, "true"}), 1,
                  "--heartbeat-timeout: nodes would be lost");
  }
  CHECK(run_ddprun({"--heartbeat-timeout", "0.1", "true"}).exit_code == 0);
}

TEST_CASE("an instant or a time that is none is no deadline", "[e2e][launcher]") {
  for (const char* past : {"@-9223372036854775", "@-9223372036854775808", "@-1", "@0", "@1"}) {
    INFO(past);
    check_refused(run_ddprun({"--deadline", past, "true"}), 1, "has passed");
  }
  check_refused(run_ddprun({"--deadline", "@9223372036854775807", "true"}), 1,
                "is not a Unix time");
}

TEST_CASE("a time whose text is empty is a mistake, and not a time that was never asked for",
          "[e2e][launcher]") {
  for (const char* option : {"--deadline", "--hang-timeout", "--preempt-grace"}) {
    INFO(option);
    check_refused(run_ddprun({option, "", "true"}), 1, std::string(option) + ": '' is not a time");
  }
  check_refused(run_ddprun({"--restart-window", "", "true"}), 1, "--restart-window: ''");
  check_refused(run({.argv = {"env", "PET_DEADLINE=", find_program("ddprun"), "true"}}), 1,
                "PET_DEADLINE: ''");
}

TEST_CASE("an option that names nothing is a mistake, and not one that was never given",
          "[e2e][launcher]") {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--on", ""},
           {"--on", " , "},
           {"--event-log", ""},
           {"--warm-imports", ""},
           {"--same-env-ignore", ","},
           // Between two others, too: a list that adds up must not lose one of its parts.
           {"--on", "exit:3=fail", "--on", ""}}) {
    const std::string shown = words[words.size() - 2] + ": '" + words.back() + "' names nothing";
    auto all = words;
    all.emplace_back("true");
    check_refused(run_ddprun(all), 1, shown);
  }
  check_refused(run({.argv = {"env", "PET_ON=", find_program("ddprun"), "true"}}), 1,
                "PET_ON: '' names nothing");
  const auto deaf = run_ddprun({"--signals-to-handle", "", "true"});
  CHECK(deaf.exit_code == 0);
  CHECK_THAT(deaf.err, Catch::Contains("--signals-to-handle: no signal is named"));
  // As torchrun: a new directory of its own.
  CHECK(run_ddprun({"--log-dir", "", "true"}).exit_code == 0);
}

TEST_CASE("every time may be as long as its user likes, and none has a blank before its unit",
          "[e2e][launcher]") {
  const std::string digits(23, '9');
  for (const char* option : {"--shutdown-timeout", "--join-timeout", "--heartbeat-timeout",
                             "--preempt-grace", "--deadline", "--hang-timeout"}) {
    INFO(option);
    CHECK(run_ddprun({option, digits, "true"}).exit_code == 0);
    CHECK(run_ddprun({option, " 9 ", "true"}).exit_code == 0);
    const auto refused = run_ddprun({option, "5 s", "true"});
    CHECK(refused.exit_code != 0);
    CHECK(refused.err.find(std::string(option) + ": '5 s' is not a ") != std::string::npos);
  }
  CHECK(run_ddprun({"--join-timeout", "1e999", "true"}).exit_code == 0);  // as Python reads it: inf
}

TEST_CASE("a local rank that no worker has is told, and costs the job nothing", "[e2e][launcher]") {
  struct Row {
    Words words;
    const char* says;
  };
  const Row rows[] = {
      {{"-r", "5:1"}, "--redirects: no worker here has local rank 5"},
      {{"-t", "0:0,9:3"}, "--tee: no worker here has local rank 9"},
      {{"--local-ranks-filter", "1,2"}, "--local-ranks-filter: no worker here has"}};
  for (const Row& row : rows) {
    Words words = row.words;
    words.insert(words.end(), {"--nproc-per-node", "2", "true"});
    const Finished job = run_ddprun(words);
    CHECK(job.exit_code == 0);
    CHECK_THAT(job.err, Catch::Contains(row.says));
    CHECK(std::count(job.err.begin(), job.err.end(), '\n') == 1);
  }
  CHECK(run_ddprun({"-r", "0:1,1:2", "--nproc-per-node", "2", "true"}).err.empty());
}

TEST_CASE("several --on add up, and a class that two of them name is refused", "[e2e][launcher]") {
  check_refused(run_ddprun({"--on", "oom=fail", "--on", "oom=free", "true"}), 1,
                "--on: 'oom' is named twice");
  const Finished both = run_ddprun({"--max-restarts", "3", "--on", "exit:7=fail", "--on",
                                    "hang=fail", "sh", "-c", "echo begun; exit 7"});
  CHECK(both.exit_code == 1);
  CHECK(both.out == "begun\n");  // the first list holds, so that no second attempt is made
}

TEST_CASE("a word of any length is refused in a sentence that a person can read",
          "[e2e][launcher]") {
  const std::string word(100'000, 'x');
  for (const char* option : {"--nnodes", "--max-restarts", "--deadline", "--rdzv-endpoint",
                             "--local-addr", "--rdzv-conf", "-r"}) {
    INFO(option);
    const Finished outcome = run_ddprun({option, word, "true"});
    CHECK((outcome.exit_code == 1 || outcome.exit_code == 2));
    check_one_sentence(outcome.err);
    CHECK(outcome.err.size() < 4'000);
    CHECK_THAT(outcome.err, Catch::Contains("; "));  // what to do is not cut away
  }
}

TEST_CASE("a sentence of many words is cut in its middle", "[e2e][launcher]") {
  std::string words;
  while (words.size() < 50'000) {
    words += "many ";
  }
  const Finished outcome = run_ddprun({"--nnodes", words, "true"});
  check_refused(outcome, 1, "[...]");
  CHECK(outcome.err.size() < 8'100);
  CHECK_THAT(outcome.err, Catch::EndsWith("write for example 2 or 2:4\n"));
}

TEST_CASE("an endpoint of blanks and commas is none", "[e2e][launcher]") {
  for (const char* endpoint : {" ", ",", " , "}) {
    check_refused(
        run_ddprun({"--nnodes", "2", "--join-timeout", "1", "--rdzv-endpoint", endpoint, "true"}),
        1, "names no host");
  }
}

TEST_CASE("GPUs asked for where none is visible: the sentence says what was looked for",
          "[e2e][launcher]") {
  // This list hides every GPU, so this holds on any machine.
  const Finished job =
      run_ddprun({"--nproc-per-node", "gpu", "true"}, {{"CUDA_VISIBLE_DEVICES", "-1"}});
  check_refused(job, 1, "--nproc-per-node: no GPU was found: ");
  if (contains(job.err, "leaves 0")) {
    CHECK_THAT(job.err, Catch::Contains("CUDA_VISIBLE_DEVICES='-1' leaves 0"));
  } else {  // a machine without any
    CHECK_THAT(job.err, Catch::Contains("NVML (libnvidia-ml.so.1)") &&
                            Catch::Contains("there is nothing in /proc/driver/nvidia/gpus") &&
                            Catch::Contains("there is no /dev/nvidia<number>"));
  }
}

TEST_CASE("a node has a worker for each processor that its agent may use", "[e2e][launcher]") {
  cpu_set_t allowed;
  REQUIRE(::sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &allowed)) {
    ++first;
  }
  const Finished job =
      run({.argv = {"taskset", "-c", std::to_string(first), find_program("ddprun"),
                    "--nproc-per-node", "cpu", "sh", "-c", "echo world=$WORLD_SIZE"}});
  CHECK(job.exit_code == 0);
  CHECK(job.out == "world=1\n");
}

TEST_CASE("a bad variable is told by its name", "[e2e][launcher]") {
  check_refused(run_ddprun({"true"}, {{"LOGLEVEL", "loud"}}), 1, "LOGLEVEL: 'loud'");
  check_refused(run_ddprun({"true"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "soon"}}), 1,
                "TORCH_ELASTIC_SHUTDOWN_TIMEOUT: 'soon'");
  check_refused(run_ddprun({"true"}, {{"PET_NNODES", " "}}), 1, "PET_NNODES: ' '");
  check_refused(run_ddprun({"true"}, {{"PET_MAX_RESTARTS", "x"}}), 2, "PET_MAX_RESTARTS: 'x'");
  check_refused(run_ddprun({"true"}, {{"PET_STANDALONE", "yes"}}), 1, "PET_STANDALONE: 'yes'");
}

TEST_CASE("a scheduler's number that is none is a mistake, unless nothing is taken from it") {
  const auto run_with = [](const std::string& name, const std::string& value,
                           const std::vector<std::string>& options) {
    std::vector<std::string> words{"ddprun"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("true");
    return run({.argv = words, .environment = {{name, value}}});
  };
  for (const char* name : {"SLURM_JOB_ID", "SLURM_STEP_NUM_TASKS", "PMI_RANK"}) {
    const Finished refused = run_with(name, "1\x1b[2J\n2", {});
    CHECK(refused.exit_code == 2);
    CHECK(refused.err == "ddprun: " + std::string(name) +
                             ": '1?[2J?2' is no number from 0 to 4294967295; unset it, or give "
                             "--no-scheduler, which takes nothing from a scheduler\n");
    for (const char* option : {"--no-scheduler", "--standalone"}) {
      CHECK(run_with(name, "x", {option}).exit_code == 0);
    }
  }
}

TEST_CASE("help and version go to stdout and end well", "[e2e][launcher]") {
  for (const char* word : {"--help", "-h", "--h"}) {
    const Finished help = run_ddprun({word});
    CHECK(help.exit_code == 0);
    CHECK(help.err.empty());
    CHECK(contains(help.out, "Usage: ddprun [options] PROGRAM"));
    CHECK(contains(help.out, "--nproc-per-node N|cpu|gpu|auto"));
  }
  const Finished version = run_ddprun({"--version"});
  CHECK(version.exit_code == 0);
  CHECK(version.err.empty());
  CHECK(version.out.starts_with("ddprun "));
  CHECK(std::count(version.out.begin(), version.out.end(), '\n') == 1);
}

TEST_CASE("a job that succeeds ends with 0 and says nothing", "[e2e][launcher]") {
  for (const char* program : {"true", "/bin/true"}) {
    const Finished outcome = run_ddprun({"--standalone", "--no-python", program});
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.empty());
  }
}

TEST_CASE("words after the program are the program's own", "[e2e][launcher]") {
  const Finished outcome = run_ddprun({"echo", "--nnodes", "0", "-h", "--", "x"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == "--nnodes 0 -h -- x\n");
}

}  // namespace ddprun::test
