#include "launcher/options.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "launcher/option_table.h"
#include "tests/unit/launcher/launch_words.h"

using namespace ddprun;
using namespace ddprun::test;

namespace {

using Words = std::vector<std::string>;

/// A value that the row takes and that differs from its default, and what it reads as.
std::string sample(const OptionRow& row) {
  if (!row.choices.empty()) {
    return std::string(row.choices.substr(row.choices.rfind('|') + 1));
  }
  return std::visit(
      [](auto field) -> std::string {
        using Value = std::remove_cvref_t<decltype(Options{}.*field)>;
        if constexpr (std::is_same_v<Value, int> || std::is_same_v<Value, std::optional<int>>) {
          return "17";
        } else if constexpr (std::is_same_v<Value, double> ||
                             std::is_same_v<Value, std::optional<double>>) {
          return "2.5";
        } else if constexpr (std::is_same_v<Value, bool>) {
          return "1";
        } else {
          return "some-text";
        }
      },
      row.field);
}

/// The value of the row's field as text; "" when an optional one was not given.
std::string value_text(const Options& options, const OptionRow& row) {
  return std::visit(
      [&](auto field) -> std::string {
        const auto& value = options.*field;
        using Value = std::remove_cvref_t<decltype(value)>;
        std::ostringstream out;
        if constexpr (std::is_same_v<Value, std::optional<int>> ||
                      std::is_same_v<Value, std::optional<double>> ||
                      std::is_same_v<Value, std::optional<std::string>>) {
          if (value) {
            out << *value;
          }
        } else {
          out << value;
        }
        return out.str();
      },
      row.field);
}

bool ends_reading(const OptionRow& row) {
  return row.name == "help" || row.name == "version" || row.name == "print-completion";
}

std::string underscored(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

void check_given(const OptionRow& row, const Words& words, const Variables& variables = {}) {
  INFO(words.front());
  const auto parsed = parse_words(words, variables);
  REQUIRE(std::holds_alternative<Options>(parsed));
  const auto& options = std::get<Options>(parsed);
  CHECK(value_text(options, row) == sample(row));
  CHECK(options.program == Words{"prog", "--nnodes"});
}

UsageError usage_error(const std::string& line, const Variables& variables = {}) {
  INFO(line);
  auto parsed = parse(line, variables);
  REQUIRE(std::holds_alternative<UsageError>(parsed));
  return std::get<UsageError>(parsed);
}

Options good(const std::string& line, const Variables& variables = {}) {
  INFO(line);
  auto parsed = parse(line, variables);
  REQUIRE(std::holds_alternative<Options>(parsed));
  return std::get<Options>(parsed);
}

}  // namespace

TEST_CASE("the table has every option of torchrun, with its letter, form and default",
          "[launcher]") {
  // As the parser of PyTorch 2.13's torchrun lists them. "": no default that shows.
  struct TorchrunOption {
    const char* name;
    char letter;
    bool flag;
    const char* default_text;
  };
  const TorchrunOption options[] = {
      {"help", 'h', true, "0"},
      {"nnodes", 0, false, "1:1"},
      {"nproc-per-node", 0, false, "1"},
      {"rdzv-backend", 0, false, ""},
      {"rdzv-endpoint", 0, false, ""},
      {"rdzv-id", 0, false, "none"},
      {"rdzv-conf", 0, false, ""},
      {"standalone", 0, true, "0"},
      {"max-restarts", 0, false, "0"},
      {"monitor-interval", 0, false, "0.1"},
      {"start-method", 0, false, "spawn"},
      {"event-log-handler", 0, false, "null"},
      {"role", 0, false, "default"},
      {"module", 'm', true, "0"},
      {"no-python", 0, true, "0"},
      {"run-path", 0, true, "0"},
      {"log-dir", 0, false, ""},
      {"redirects", 'r', false, "0"},
      {"tee", 't', false, "0"},
      {"local-ranks-filter", 0, false, ""},
      {"duplicate-stdout-filters", 0, false, ""},
      {"duplicate-stderr-filters", 0, false, ""},
      {"node-rank", 0, false, ""},
      {"master-addr", 0, false, "127.0.0.1"},
      {"master-port", 0, false, ""},
      {"local-addr", 0, false, ""},
      {"logs-specs", 0, false, ""},
      {"numa-binding", 0, false, ""},
      {"signals-to-handle", 0, false, "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
      {"shutdown-timeout", 0, false, ""},
      {"virtual-local-rank", 0, true, "0"},
  };
  for (const TorchrunOption& option : options) {
    INFO(option.name);
    const auto& rows = option_rows();
    const auto row = std::find_if(std::begin(rows), std::end(rows),
                                  [&](const OptionRow& one) { return one.name == option.name; });
    REQUIRE(row != std::end(rows));
    CHECK(row->letter == option.letter);
    CHECK(is_flag(*row) == option.flag);
    CHECK(value_text(Options{}, *row) == option.default_text);
  }
}

TEST_CASE("every option is read in both spellings and in both forms of giving a value",
          "[launcher]") {
  for (const OptionRow& row : option_rows()) {
    if (ends_reading(row)) {
      continue;
    }
    for (const std::string& name : {std::string(row.name), underscored(row.name)}) {
      if (is_flag(row)) {
        check_given(row, {"--" + name, "prog", "--nnodes"});
      } else {
        check_given(row, {"--" + name, sample(row), "prog", "--nnodes"});
        check_given(row, {"--" + name + "=" + sample(row), "--", "prog", "--nnodes"});
      }
    }
    if (row.letter != 0) {
      const std::string letter = std::string("-") + row.letter;
      if (is_flag(row)) {
        check_given(row, {letter, "prog", "--nnodes"});
      } else {
        check_given(row, {letter, sample(row), "prog", "--nnodes"});
        check_given(row, {letter + sample(row), "prog", "--nnodes"});
        check_given(row, {letter + "=" + sample(row), "prog", "--nnodes"});
      }
    }
  }
}

TEST_CASE("every option with a PET_ variable takes its default from there", "[launcher]") {
  for (const OptionRow& row : option_rows()) {
    INFO(row.name);
    const Variables variables{{variable_name(row.name), sample(row)}};
    const Options options = good("prog --nnodes", variables);
    if (!row.has_variable) {
      CHECK(value_text(options, row) == value_text(Options{}, row));
      continue;
    }
    CHECK(value_text(options, row) == sample(row));
    CHECK(origin(options, row.name) == variable_name(row.name));
  }
}

TEST_CASE("the command line wins over a PET_ variable, which is then not even looked at",
          "[launcher]") {
  const Options options = good("--max-restarts 2 --standalone prog",
                               {{"PET_MAX_RESTARTS", "many"}, {"PET_STANDALONE", "maybe"}});
  CHECK(options.max_restarts == 2);
  CHECK(options.standalone);
  CHECK(origin(options, "max-restarts") == "--max-restarts");
}

TEST_CASE("a flag's PET_ variable is a whole number, not zero for on", "[launcher]") {
  CHECK(good("prog", {{"PET_NO_PYTHON", "1"}}).no_python);
  CHECK(good("prog", {{"PET_NO_PYTHON", "-3"}}).no_python);
  CHECK_FALSE(good("prog", {{"PET_NO_PYTHON", "0"}}).no_python);
  for (const char* bad : {"", "true", "yes", "1.0"}) {
    const UsageError error = usage_error("prog", {{"PET_NO_PYTHON", bad}});
    CHECK(error.exit_code == kExitFailure);  // torchrun's uncaught ValueError
    CHECK(error.error.where == "PET_NO_PYTHON");
  }
}

TEST_CASE("an empty command line has torchrun's defaults", "[launcher]") {
  const Options options = good("prog");
  CHECK(options.nnodes == "1:1");
  CHECK(options.nproc_per_node == "1");
  CHECK(options.max_restarts == 0);
  CHECK(options.rdzv_id == "none");
  CHECK(options.master_addr == "127.0.0.1");
  CHECK_FALSE(options.master_port);
  CHECK_FALSE(options.rdzv_backend);
  CHECK(options.redirects == "0");
  CHECK(options.tee == "0");
  CHECK(options.role == "default");
  CHECK(options.signals_to_handle == "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  CHECK(options.from_environment.empty());
}

TEST_CASE("the first word that is no option is the program and owns all that follows",
          "[launcher]") {
  CHECK(good("train.py").program == Words{"train.py"});
  CHECK(good("--nnodes 2 train.py --nnodes 3 -h -- x").program ==
        Words{"train.py", "--nnodes", "3", "-h", "--", "x"});
  CHECK(good("-- --odd-name a").program == Words{"--odd-name", "a"});
  CHECK(good("-- -- a").program == Words{"--", "a"});
  CHECK(good("--standalone -- prog --").program == Words{"prog", "--"});
  // A dash alone, a negative number and a sentence are words, not options (argparse).
  CHECK(good("- x").program == Words{"-", "x"});
  CHECK(good("-1 x").program == Words{"-1", "x"});
  CHECK(std::get<Options>(parse_words({"-x y", "z"})).program == Words{"-x y", "z"});
  CHECK(std::get<Options>(parse_words({"", "z"})).program == Words{"", "z"});
}

TEST_CASE("the last of several values of an option counts", "[launcher]") {
  CHECK(good("--nnodes 2 --nnodes=3 prog").nnodes == "3");
}

TEST_CASE("a value may be empty, negative or contain an equals sign", "[launcher]") {
  CHECK(good("--rdzv-id= prog").rdzv_id.empty());
  CHECK(good("--max-restarts -1 prog").max_restarts == -1);
  CHECK(good("--monitor-interval -.5 prog").monitor_interval_seconds == -0.5);
  CHECK(good("--rdzv-conf is_host=1,timeout=3 prog").rdzv_conf == "is_host=1,timeout=3");
  CHECK(good("--rdzv-conf=is_host=1 prog").rdzv_conf == "is_host=1");
  CHECK(good("--rdzv-id - prog").rdzv_id == "-");
}

TEST_CASE("a unique prefix of a long option is the option", "[launcher]") {
  CHECK(good("--nn 2 prog").nnodes == "2");
  CHECK(good("--nproc=4 prog").nproc_per_node == "4");
  CHECK(good("--max 4 prog").max_restarts == 4);
  CHECK(good("--rdzv_e h prog").rdzv_endpoint == "h");
  CHECK(good("--stand prog").standalone);
  CHECK(good("--mod prog --no").program.size() == 2);
}

TEST_CASE("options of our own do not make a prefix of torchrun's ambiguous", "[launcher]") {
  CHECK(good("--h").help);                     // and not --heartbeat-timeout
  CHECK(good("--v prog").virtual_local_rank);  // and not --version
  CHECK(good("--hear 4 prog").heartbeat_timeout_seconds == 4.0);
  CHECK(good("--join 4 prog").join_timeout_seconds == 4.0);
  CHECK(good("--vers").version);
}

TEST_CASE("an ambiguous prefix names all that it could mean", "[launcher]") {
  const UsageError error = usage_error("--rdzv 3 prog");
  CHECK(error.exit_code == kExitUsage);
  CHECK(error.error.where == "--rdzv");
  for (const char* name : {"--rdzv-endpoint", "--rdzv-backend", "--rdzv-id", "--rdzv-conf"}) {
    CHECK(error.error.what.find(name) != std::string::npos);
  }
  CHECK(usage_error("--n=3 prog").error.what.find("--nnodes, --nproc-per-node") !=
        std::string::npos);
}

TEST_CASE("letters may be run together, the last with its value", "[launcher]") {
  const Options options = good("-mr3 -t=1:2 mod");
  CHECK(options.module);
  CHECK(options.redirects == "3");
  CHECK(options.tee == "1:2");
  CHECK(good("-mh").help);
}

TEST_CASE("help, version and completion end the reading where they stand", "[launcher]") {
  CHECK(good("-h").help);
  CHECK(good("--nnodes 2 --help --unknown").help);
  CHECK(good("--version").version);
  CHECK(good("--print-completion zsh --unknown").print_completion == "zsh");
  CHECK(only_shows_text(good("--print_completion=bash")));
  CHECK(good("--help", {{"PET_MAX_RESTARTS", "x"}}).help);
  CHECK(usage_error("--unknown --help").exit_code == kExitUsage);
  CHECK_FALSE(good("prog --help").help);
}

TEST_CASE("what argparse refuses ends in one sentence and exit code 2", "[launcher]") {
  struct Row {
    const char* line;
    const char* where;
    const char* what;
  };
  const Row rows[] = {
      {"", "", "no program"},
      {"--nnodes 2", "", "no program"},
      {"--standalone --", "", "no program"},
      {"--bogus prog", "--bogus", "unknown option"},
      {"--bogus=3 prog", "--bogus", "unknown option"},
      {"-x prog", "-x", "unknown option"},
      {"-mx prog", "-mx", "no option -x"},
      {"---nnodes 2 prog", "---nnodes", "unknown option"},
      {"--nnodes", "--nnodes", "value is missing"},
      {"--nnodes -- prog", "--nnodes", "value is missing"},
      {"--nnodes --standalone prog", "--nnodes", "value is missing"},
      {"--nnodes --bogus prog", "--nnodes", "value is missing"},
      {"--deadline -5m prog", "--deadline", "value is missing, for '-5m' looks like an option"},
      {"-r", "-r", "value is missing"},
      {"--standalone=1 prog", "--standalone", "takes no value"},
      {"--standalone= prog", "--standalone", "takes no value"},
      {"-m=1 prog", "-m", "takes no value"},
      {"--max-restarts x prog", "--max-restarts", "'x' is not a whole number"},
      {"--max-restarts 99999999999 prog", "--max-restarts", "'99999999999' is too large"},
      {"--max-restarts 1.5 prog", "--max-restarts", "'1.5' is not a whole number"},
      {"--max-restarts= prog", "--max-restarts", "'' is not a whole number"},
      {"--node-rank one prog", "--node-rank", "'one' is not a whole number"},
      {"--master-port http prog", "--master-port", "'http' is not a whole number"},
      {"--shutdown-timeout 3s prog", "--shutdown-timeout", "'3s' is not a whole number"},
      {"--monitor-interval soon prog", "--monitor-interval", "'soon' is not a number"},
      {"--heartbeat-timeout 3s prog", "--heartbeat-timeout", "'3s' is not a number"},
      {"--start-method clone prog", "--start-method", "'clone' is not a choice"},
      {"--numa-binding all prog", "--numa-binding", "'all' is not a choice"},
  };
  for (const Row& row : rows) {
    INFO(row.line);
    const UsageError error = usage_error(row.line);
    CHECK(error.exit_code == kExitUsage);
    CHECK(error.error.where == row.where);
    CHECK(error.error.what.find(row.what) != std::string::npos);
    CHECK_FALSE(error.error.todo.empty());
    CHECK(error.error.sentence().find('\n') == std::string::npos);
  }
}

TEST_CASE("a bad value from a PET_ variable names the variable", "[launcher]") {
  const UsageError error = usage_error("prog", {{"PET_MAX_RESTARTS", "many"}});
  CHECK(error.exit_code == kExitUsage);
  CHECK(error.error.where == "PET_MAX_RESTARTS");
  CHECK(usage_error("prog", {{"PET_START_METHOD", "x"}}).error.where == "PET_START_METHOD");
}

TEST_CASE("a misspelt option is answered with the one that was meant", "[launcher]") {
  CHECK(usage_error("--nproc-per-nod3=2 p").error.todo == "did you mean --nproc-per-node?");
  CHECK(usage_error("--max_restart5 2 p").error.todo == "did you mean --max-restarts?");
  CHECK(usage_error("-nnodes 2 p").error.todo == "did you mean --nnodes?");
  CHECK(usage_error("--bogus 2 p").error.todo.find("did you mean") == std::string::npos);
  CHECK(usage_error("--" + std::string(100000, 'x')).error.what == "unknown option");
}

TEST_CASE("no name is given twice in the table and none begins as a negative number",
          "[launcher]") {
  std::vector<std::string> names;
  for (const OptionRow& row : option_rows()) {
    names.emplace_back(row.name);
    CHECK(is_flag(row) == row.value_name.empty());
    CHECK_FALSE(row.help.empty());
    CHECK_FALSE((row.letter >= '0' && row.letter <= '9'));
  }
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

TEST_CASE("whatever the words are, they end in options or in an error with a remedy",
          "[launcher]") {
  const Words pieces{"--", "-",          "=",   "nnodes", "max",  "_restarts", "m", "r",
                     "t",  "h3",         "1:2", "-1",     " ",    "rdzv",      "",  "prog",
                     "-x", "standalone", "\n",  ".5",     "--no", "ver"};
  std::mt19937 random(20240229);  // a fixed seed: the same words in every run
  const auto below = [&](std::size_t n) { return random() % n; };
  int errors = 0;
  constexpr int kRuns = 20000;
  for (int run = 0; run < kRuns; ++run) {
    Words words(below(5));
    for (std::string& word : words) {
      for (auto left = below(4); left > 0; --left) {
        word += pieces[below(pieces.size())];
      }
    }
    const auto parsed = parse_words(words);
    if (const auto* usage = std::get_if<UsageError>(&parsed)) {
      ++errors;
      REQUIRE(usage->exit_code == kExitUsage);
      REQUIRE_FALSE(usage->error.what.empty());
      REQUIRE_FALSE(usage->error.todo.empty());
    } else {
      const auto& options = std::get<Options>(parsed);
      REQUIRE((options.help || options.version || !options.program.empty()));
    }
  }
  CHECK(errors > kRuns / 10);
  CHECK(errors < kRuns * 9 / 10);
}
