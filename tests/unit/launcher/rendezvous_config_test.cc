#include "launcher/rendezvous_config.h"

#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <string>

#include "launcher/kubernetes_config.h"
#include "launcher/python_numbers.h"
#include "tests/unit/launcher/resolve_words.h"

using namespace ddprun;
using namespace ddprun::test;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

JobSpec met(const std::string& line, const Variables& variables = {}) {
  INFO(line);
  const auto launch = resolved(line + " p", variables);
  if (!launch) {
    FAIL(launch.error().sentence());
  }
  return launch->job;
}

Error refused(const std::string& line) {
  INFO(line);
  const auto launch = resolved(line + " p");
  REQUIRE_FALSE(launch.has_value());
  return launch.error();
}

bool meets_nobody(const JobSpec& job) {
  return job.backend == RendezvousBackend::c10d && job.endpoint == Endpoint{"localhost", 0} &&
         job.is_host == true;
}

}  // namespace

TEST_CASE("one node that names no place to meet is alone, on a free port", "[launcher]") {
  for (const char* line :
       {"", "--nnodes 1", "--rdzv-backend static", "--node-rank 0", "--nnodes 1:1"}) {
    INFO(line);
    const JobSpec job = met(line);
    CHECK(meets_nobody(job));
    CHECK(job.job_id == "fresh-id");
  }
  CHECK(met("--rdzv-id mine").job_id == "mine");
}

TEST_CASE("standalone overrides where to meet and says what it stands for", "[launcher]") {
  const auto launch = resolved(
      "--standalone --rdzv-endpoint h:1 --rdzv-id mine --rdzv-backend etcd --nnodes 1:4 p");
  REQUIRE(launch.has_value());
  CHECK(meets_nobody(launch->job));
  CHECK(launch->job.job_id == "fresh-id");
  CHECK(launch->job.max_nodes == 1);  // a last call for more nodes would be heard by nobody
  REQUIRE(launch->notices.size() == 1);
  CHECK(launch->notices[0].level == LogLevel::info);
  CHECK(launch->notices[0].text.find("fresh-id") != std::string::npos);
}

TEST_CASE("an endpoint without a backend means c10d, whatever the number of nodes", "[launcher]") {
  for (const char* line : {"--rdzv-endpoint n1", "--rdzv-endpoint n1:29400 --nnodes 2",
                           "--rdzv-endpoint n1 --nnodes 2 --node-rank 1",
                           "--rdzv-backend c10d --rdzv-endpoint n1 --nnodes 2:4"}) {
    INFO(line);
    const JobSpec job = met(line);
    CHECK(job.backend == RendezvousBackend::c10d);
    CHECK(job.endpoint == Endpoint{"n1", 29400});
    CHECK_FALSE(job.is_host);
    CHECK(job.job_id == "none");
  }
  CHECK(met("--rdzv-endpoint n1 --nnodes 2 --node-rank 1").node_rank == 1);
  CHECK_FALSE(met("--rdzv-endpoint n1 --nnodes 2").node_rank);
}

TEST_CASE("c10d without an endpoint meets at this host's own default port", "[launcher]") {
  for (const char* line : {"--rdzv-backend c10d --nnodes 2", "--rdzv-backend c10d --nnodes 1:2",
                           "--rdzv-backend c10d --rdzv-conf is_host=0"}) {
    INFO(line);
    CHECK(met(line).endpoint == Endpoint{"localhost", 29400});
  }
}

TEST_CASE("c10d without an endpoint needs no port of its own for one node (I-5)", "[launcher]") {
  const JobSpec job = met("--rdzv-backend c10d --master-port 29500");
  CHECK(meets_nobody(job));
  CHECK(job.job_id == "none");
}

TEST_CASE("endpoints are numeric or named, IPv4 or IPv6", "[launcher]") {
  CHECK(met("--rdzv-endpoint 10.0.0.1:5").endpoint == Endpoint{"10.0.0.1", 5});
  CHECK(met("--rdzv-endpoint [fd00::1]:5").endpoint == Endpoint{"fd00::1", 5});
  CHECK(met("--rdzv-endpoint fd00::1").endpoint == Endpoint{"fd00::1", 29400});
}

TEST_CASE("port 0 is for a node alone, which then hosts", "[launcher]") {
  const JobSpec job = met("--rdzv-backend c10d --rdzv-endpoint localhost:0 --rdzv-id a");
  CHECK(job.endpoint == Endpoint{"localhost", 0});
  CHECK(job.is_host == true);
  CHECK(job.job_id == "a");
  CHECK(refused("--rdzv-endpoint n1:0 --nnodes 2").where == "--rdzv-endpoint");
  CHECK(refused("--nnodes 2 --master-port 0").where == "--master-port");
}

TEST_CASE("with etcd the endpoints are its members", "[launcher]") {
  for (const char* line :
       {"--rdzv-backend etcd --rdzv-id run --rdzv-endpoint e1,e2:9 --nnodes 1:2 --node-rank 1",
        "--rdzv-backend etcd-v2 --rdzv-id run --rdzv-endpoint e1,e2:9 --rdzv-conf is_host=1"}) {
    INFO(line);
    const JobSpec job = met(line, {{"DDPRUN_ETCD_USER", "me:a:b"}});
    CHECK(job.backend == RendezvousBackend::etcd);
    CHECK(job.endpoint == Endpoint{"e1", 2379});
    CHECK(job.more_endpoints == std::vector<Endpoint>{{"e2", 9}});
    CHECK_FALSE(job.is_host);
    CHECK(job.etcd_user == "me");
    CHECK(job.etcd_password == "a:b");
    CHECK_FALSE(job.service_certificates);
  }
  // Both backends' names for the files; one file may hold certificate and key.
  const std::string etcd = "--rdzv-backend etcd --rdzv-id a --rdzv-endpoint e1 --rdzv-conf ";
  const auto files = [&etcd](const char* conf) { return met(etcd + conf).service_certificates; };
  CHECK(files("protocol=https") == TlsFiles{});
  CHECK(files("protocol=https,cacert=a,cert=b,key=c") == TlsFiles{"a", "b", "c"});
  CHECK(files("protocol=https,ca_cert=a,ssl_cert=b") == TlsFiles{"a", "b", "b"});
  CHECK_FALSE(files("protocol=http"));
}

TEST_CASE("with kubernetes the endpoint is the API server, which a pod knows", "[launcher]") {
  const Variables pod{{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "443"}};
  const std::string kubernetes = "--rdzv-backend kubernetes --rdzv-id run ";
  for (const char* nodes : {"--nnodes 2:4 --node-rank 1", "--nnodes 1 --rdzv-conf is_host=1"}) {
    const JobSpec job = met(kubernetes + nodes, pod);
    CHECK(job.backend == RendezvousBackend::kubernetes);
    CHECK(job.endpoint == Endpoint{"fd00::1", 443});
    CHECK_FALSE(job.is_host);
    CHECK(job.kubernetes_namespace.empty());  // it is read from a file
    CHECK(job.kubernetes_token_file == "/var/run/secrets/kubernetes.io/serviceaccount/token");
    REQUIRE(job.service_certificates);
    CHECK(job.service_certificates->ca == "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt");
  }
  const JobSpec given =
      met(kubernetes + "--rdzv-endpoint k --rdzv-conf namespace=ml,token_file=t,cacert=c", pod);
  CHECK(given.endpoint == Endpoint{"k", 443});
  CHECK(given.kubernetes_namespace == "ml");
  CHECK(given.kubernetes_token_file == "t");
  CHECK(given.service_certificates == TlsFiles{"c", "", ""});
  const JobSpec proxy =
      met(kubernetes + "--rdzv-endpoint 127.0.0.1 --rdzv-conf protocol=http", pod);
  CHECK(proxy.endpoint == Endpoint{"127.0.0.1", 8001});
  CHECK(proxy.kubernetes_token_file.empty());
  CHECK_FALSE(proxy.service_certificates);
  // A certificate of the client stands for a token.
  const JobSpec certified = met(kubernetes + "--rdzv-conf cert=b,key=d", pod);
  CHECK(certified.kubernetes_token_file.empty());
  CHECK(certified.service_certificates->certificate == "b");
}

TEST_CASE("an address of the API server that is none is refused by its variable", "[launcher]") {
  const std::string line = "--rdzv-backend kubernetes --rdzv-id run p";
  for (const char* const host : {" ", "10.0.0.1 ", "[::1", "a b", "10.0.0.1:443"}) {
    INFO(host);
    const auto launch =
        resolved(line, {{"KUBERNETES_SERVICE_HOST", host}, {"KUBERNETES_SERVICE_PORT", "443"}});
    REQUIRE_FALSE(launch.has_value());
    CHECK(launch.error().where == "KUBERNETES_SERVICE_HOST");
    CHECK(launch.error().what.find("is not a host name or address") != std::string::npos);
  }
  const auto missing = [&](const Variables& set) { return resolved(line, set).error().what; };
  const std::string none_is_known = "no API server is known: KUBERNETES_SERVICE_";
  CHECK(missing({{"KUBERNETES_SERVICE_HOST", "k"}}) ==
        none_is_known + "PORT is not set, as it is in a pod");
  CHECK(missing({{"KUBERNETES_SERVICE_PORT", "443"}}) ==
        none_is_known + "HOST is not set, as it is in a pod");
  CHECK(missing({}) ==
        none_is_known + "HOST and KUBERNETES_SERVICE_PORT are not set, as they are in a pod");
  const Variables brackets{{"KUBERNETES_SERVICE_HOST", "[fd00::1]"},
                           {"KUBERNETES_SERVICE_PORT", "443"}};
  CHECK(met("--rdzv-backend kubernetes --rdzv-id run", brackets).endpoint ==
        Endpoint{"fd00::1", 443});
}

TEST_CASE("what an operator sets in each pod is no word of a person", "[launcher]") {
  const JobSpec job = met("--rdzv-backend etcd --rdzv-id a --rdzv-endpoint e1",
                          {{"PET_MASTER_ADDR", "n1"}, {"PET_MASTER_PORT", "1"}});
  CHECK(job.endpoint == Endpoint{"e1", 2379});
}

TEST_CASE("what a pod has not is told by its file, and what to do", "[launcher]") {
  JobSpec job;
  std::map<std::string, std::string> files;
  const auto read = [&files](const std::string& path) {
    const auto found = files.find(path);
    return found != files.end() ? std::optional(found->second) : std::nullopt;
  };
  const std::string folder = "/var/run/secrets/kubernetes.io/serviceaccount/";
  CHECK(read_service_account(read, job).has_value());  // another backend
  job.backend = RendezvousBackend::kubernetes;
  job.kubernetes_token_file = folder + "token";
  job.service_certificates = TlsFiles{folder + "ca.crt", "", ""};
  for (const char* const name : {"namespace", "token", "ca.crt"}) {
    const auto missing = read_service_account(read, job);
    REQUIRE_FALSE(missing.has_value());
    CHECK(missing.error().where == folder + name);
    CHECK(missing.error().todo.find("automountServiceAccountToken") != std::string::npos);
    files[folder + name] = "\n";
    CHECK(read_service_account(read, job).has_value() == (name == std::string("ca.crt")));
    files[folder + name] = "ml\n";
  }
  REQUIRE(read_service_account(read, job).has_value());
  CHECK(job.kubernetes_namespace == "ml");
}

TEST_CASE("several nodes without an endpoint are static, at torchrun's default", "[launcher]") {
  const JobSpec first = met("--nnodes 2");
  CHECK(first.backend == RendezvousBackend::static_ranks);
  CHECK(first.endpoint == Endpoint{"127.0.0.1", 29500});
  CHECK(first.is_host == true);
  CHECK(first.node_rank == 0);
  const JobSpec second = met("--nnodes 2 --node-rank 1 --master-addr n1 --master-port 1234");
  CHECK(second.endpoint == Endpoint{"n1", 1234});
  CHECK(second.is_host == false);
  CHECK(second.node_rank == 1);
}

TEST_CASE("one node with a master port is static, as in torchrun", "[launcher]") {
  const JobSpec job = met("--master-port 1234");
  CHECK(job.backend == RendezvousBackend::static_ranks);
  CHECK(job.endpoint == Endpoint{"127.0.0.1", 1234});
  CHECK(met("", {{"PET_MASTER_PORT", "77"}}).endpoint.port == 77);
}

TEST_CASE("static takes an endpoint with a port, and waits for the maximum of nodes",
          "[launcher]") {
  const JobSpec job = met("--rdzv-backend static --rdzv-endpoint n1:7 --nnodes 2:4 --node-rank 3");
  CHECK(job.backend == RendezvousBackend::static_ranks);
  CHECK(job.endpoint == Endpoint{"n1", 7});
  CHECK(job.min_nodes == 4);
  CHECK(job.is_host == false);
  CHECK(met("--nnodes 2 --master-addr fd00::1").endpoint == Endpoint{"fd00::1", 29500});
  CHECK(met("--nnodes 2 --master-addr [fd00::1]").endpoint == Endpoint{"fd00::1", 29500});
}

TEST_CASE("a place where nobody can meet is refused", "[launcher]") {
  struct Row {
    const char* line;
    const char* where;
    const char* what;
  };
  const Row rows[] = {
      {"--rdzv-endpoint n1:x", "--rdzv-endpoint, endpoint 'n1:x'", "port 'x'"},
      {"--rdzv-endpoint n1:65536", "--rdzv-endpoint, endpoint 'n1:65536'", "65535"},
      {"--rdzv-endpoint n1:", "--rdzv-endpoint, endpoint 'n1:'", "port ''"},
      {"--rdzv-endpoint a/b:1", "--rdzv-endpoint, endpoint 'a/b:1'", "character"},
      {"--rdzv-endpoint a:1,,b:2", "--rdzv-endpoint", "an endpoint of 'a:1,,b:2' is empty"},
      {"--rdzv-endpoint a:1,", "--rdzv-endpoint", "an endpoint of 'a:1,' is empty"},
      {"--rdzv-endpoint ,", "--rdzv-endpoint", "names no host"},
      {"--local-addr 300.1.1.1", "--local-addr", "'300.1.1.1' is not an IPv4 address"},
      {"--rdzv-backend static --rdzv-endpoint n1", "--rdzv-endpoint, endpoint 'n1'",
       "port is missing"},
      {"--rdzv-backend etcd --rdzv-endpoint n1", "--rdzv-backend", "has no name"},
      {"--rdzv-backend etcd-v2", "--rdzv-backend", "where etcd is"},
      {"--rdzv-backend etcd --rdzv-id a --rdzv-endpoint n1:0", "--rdzv-endpoint", "port 0"},
      {"--rdzv-backend etcd --rdzv-id a --rdzv-endpoint n1 --rdzv-conf protocol=tls", "--rdzv-conf",
       "'tls' is neither http nor https"},
      {"--rdzv-backend etcd --rdzv-id a --rdzv-endpoint e1 --rdzv-conf cacert=a", "--rdzv-conf",
       "without a protocol it is plain text"},
      {"--rdzv-backend etcd --rdzv-id a --rdzv-endpoint me:secret@e1:2379", "--rdzv-endpoint",
       "an endpoint has a user in it"},
      {"--rdzv-backend etcd --rdzv-id a --rdzv-endpoint e1 --witness", "--witness",
       "a witness votes, and with etcd no node does"},
      {"--rdzv-backend kubernetes", "--rdzv-backend", "has no name"},
      {"--rdzv-backend kubernetes --rdzv-id a", "--rdzv-backend", "no API server is known"},
      {"--rdzv-backend kubernetes --rdzv-id a --rdzv-conf protocol=http", "--rdzv-conf",
       "only kubectl proxy"},
      {"--rdzv-backend kubernetes --rdzv-id a --rdzv-conf namespace=A", "--rdzv-conf",
       "namespace='A'"},
      {"--rdzv-backend kubernetes --rdzv-id a --rdzv-endpoint a,b", "--rdzv-endpoint", "'a,b'"},
      {"--rdzv-backend kubernetes --rdzv-id a --rdzv-endpoint a:0", "--rdzv-endpoint", "'a:0'"},
      {"--rdzv-backend kubernetes --rdzv-id a --rdzv-endpoint a --rdzv-conf protocol=http,cert=b",
       "--rdzv-conf", "protocol=http is plain text, so cert= would be ignored"},
      {"--rdzv-backend kubernetes --rdzv-id a --rdzv-conf protocol=http,token_file=t",
       "--rdzv-conf", "so token_file= would be ignored"},
      {"--rdzv-backend etcd --rdzv-id a --rdzv-endpoint e1 --rdzv-conf protocol=http,ca_cert=a",
       "--rdzv-conf", "so cacert= would be ignored"},
      {"--rdzv-backend etcd --rdzv-id a --rdzv-endpoint e1 --master-addr n1", "--master-addr",
       "with --rdzv-backend etcd the service decides where the nodes meet"},
      {"--rdzv-backend kubernetes --rdzv-id a --master-port 1", "--master-port",
       "with --rdzv-backend kubernetes the service decides"},
      {"--rdzv-backend zoo", "--rdzv-backend", "'zoo'"},
      {"--rdzv-endpoint n1 --rdzv-backend=", "--rdzv-backend", "''"},
      {"--nnodes 2 --node-rank 2", "--node-rank", "rank 2"},
      {"--nnodes 2 --node-rank -1", "--node-rank", "-1"},
      {"--rdzv-endpoint n1 --node-rank -1", "--node-rank", "-1"},
      {"--nnodes 2 --master-port 65536", "--master-port", "65536"},
      {"--nnodes 2 --master-port -1", "--master-port", "-1"},
      {"--nnodes 2 --master-addr n1:99", "--master-addr", "'n1:99'"},
      {"--nnodes 2 --master-addr a/b", "--master-addr", "'a/b'"},
      {"--rdzv-endpoint n1 --rdzv-id a/b", "--rdzv-id", "'a/b'"},
      {"--rdzv-endpoint n1 --rdzv-id=", "--rdzv-id", "''"},
      {"--rdzv-id a/b", "--rdzv-id", "'a/b'"},
      {"--standalone --nnodes 2", "--standalone", "2 nodes of --nnodes"},
      {"--rdzv-endpoint n1 --rdzv-conf join_timeout=0", "--rdzv-conf", "join_timeout='0'"},
  };
  for (const Row& row : rows) {
    INFO(row.line);
    const Error error = refused(row.line);
    INFO(error.sentence());
    CHECK(error.where == row.where);
    CHECK(error.what.find(row.what) != std::string::npos);
    CHECK_FALSE(error.todo.empty());
  }
}

TEST_CASE("a job id has room beside the random part of its directory's name", "[launcher]") {
  CHECK(met("--rdzv-endpoint n1 --rdzv-id " + std::string(kJobIdBytesMax, 'x')).job_id.size() ==
        kJobIdBytesMax);
  refused("--rdzv-endpoint n1 --rdzv-id " + std::string(kJobIdBytesMax + 1, 'x'));
}

TEST_CASE("timeouts come from --rdzv-conf where torchrun reads them", "[launcher]") {
  const std::string c10d = "--rdzv-endpoint n1 --nnodes 1:2 ";
  CHECK(met(c10d).join_timeout == seconds(600));
  CHECK(met(c10d).last_call_timeout == seconds(30));
  CHECK(met(c10d).heartbeat_timeout == seconds(3));
  CHECK(met(c10d + "--rdzv-conf join_timeout=5,timeout=9").join_timeout == seconds(5));
  CHECK(met(c10d + "--rdzv-conf last_call_timeout=2").last_call_timeout == seconds(2));
  CHECK(met(c10d + "--rdzv-conf keep_alive_interval=2").heartbeat_timeout == seconds(6));
  CHECK(met(c10d + "--rdzv-conf keep_alive_max_attempt=4").heartbeat_timeout == seconds(20));
  CHECK(met(c10d + "--rdzv-conf is_host=true").is_host == true);
  CHECK(met(c10d + "--rdzv-conf is_host=0").is_host == false);
  CHECK(met("--nnodes 2").join_timeout == seconds(900));
  CHECK(met("--nnodes 2 --rdzv-conf join_timeout=5,timeout=9").join_timeout == seconds(9));
}

TEST_CASE("the options of our own win over --rdzv-conf and take fractions", "[launcher]") {
  const JobSpec job =
      met("--rdzv-endpoint n1 --rdzv-conf join_timeout=5,keep_alive_interval=2 "
          "--join-timeout 1.5 --heartbeat-timeout 0.25");
  CHECK(job.join_timeout == milliseconds(1500));
  CHECK(job.heartbeat_timeout == milliseconds(250));
  CHECK(met("", {{"PET_HEARTBEAT_TIMEOUT", "9"}}).heartbeat_timeout == seconds(9));
}

TEST_CASE("a time without end is cut to one that can be counted with and sent", "[launcher]") {
  const std::string c10d = "--rdzv-endpoint n1 --nnodes 1:2 ";
  for (const char* conf : {"keep_alive_interval=2147483647", "keep_alive_max_attempt=2147483647",
                           "keep_alive_interval=99999999999,keep_alive_max_attempt=2147483647"}) {
    INFO(conf);
    CHECK(met(c10d + "--rdzv-conf " + conf).heartbeat_timeout == std::chrono::hours(24 * 24));
  }
  CHECK(met(c10d + "--heartbeat-timeout 1e300").heartbeat_timeout == std::chrono::hours(24 * 24));
  CHECK(met(c10d + "--join-timeout inf").join_timeout == kTimeMax);
  CHECK(met(c10d + "--rdzv-conf join_timeout=99999999999").join_timeout == kTimeMax);
  CHECK(met(c10d + "--rdzv-conf last_call_timeout=2147483647").last_call_timeout == kTimeMax);
  refused(c10d + "--join-timeout nan");
}
