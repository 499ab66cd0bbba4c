#include "trainer/metrics/metrics_json.h"

#include <catch2/catch.hpp>
#include <limits>

namespace ddp {

TEST_CASE("a step is one line of JSON with all of its fields", "[metrics]") {
  const StepRecord record{.step = 7,
                          .epoch = 1,
                          .loss = 0.1,
                          .learning_rate = 1e-3,
                          .units_per_second = 1234.5,
                          .data_s = 0.25,
                          .forward_s = 0.5,
                          .backward_s = 1,
                          .update_s = 2,
                          .sync_s = 4,
                          .snapshot_s = 8,
                          .memory_bytes = 1LL << 40};
  CHECK(step_line(record, 3, 1.5) ==
        R"({"event":"step","time":1.5,"attempt":3,"step":7,"epoch":1,"loss":0.1,)"
        R"("learning_rate":0.001,"units_per_second":1234.5,"data_s":0.25,"forward_s":0.5,)"
        R"("backward_s":1.0,"update_s":2.0,"sync_s":4.0,"snapshot_s":8.0,)"
        R"("memory_bytes":1099511627776})"
        "\n");
}

TEST_CASE("a loss that is not finite is null", "[metrics]") {
  StepRecord record;
  record.loss = std::numeric_limits<double>::quiet_NaN();
  CHECK(step_line(record, 0, 0).find(R"("loss":null)") != std::string::npos);
  record.loss = std::numeric_limits<double>::infinity();
  CHECK(step_line(record, 0, 0).find(R"("loss":null)") != std::string::npos);
}

TEST_CASE("an experiment's name of any bytes gives a line of valid JSON", "[metrics]") {
  const auto line = run_line({.experiment = "a\"\n\xFF", .unit = "tokens"}, 0);
  CHECK(line.find("\"experiment\":\"a\\\"\\n\xEF\xBF\xBD\"") != std::string::npos);
  CHECK(line.find('\n') == line.size() - 1);
}

TEST_CASE("a validation without accuracy says null", "[metrics]") {
  CHECK(validation_line({.step = 2, .epoch = 1, .loss = 0.5, .accuracy = {}, .seconds = 3}, 1, 4) ==
        R"({"event":"validation","time":4.0,"attempt":1,"step":2,"epoch":1,"loss":0.5,)"
        R"("accuracy":null,"seconds":3.0})"
        "\n");
}

TEST_CASE("the last attempt of a file is its largest, whatever else is in it", "[metrics]") {
  CHECK(last_attempt("") == -1);
  CHECK(last_attempt("no JSON\n[1]\n{}\n{\"attempt\":\"x\"}\n") == -1);
  const auto file = run_line({.attempt = 4}, 0) + step_line({}, 4, 0);
  CHECK(last_attempt(file) == 4);
  CHECK(last_attempt("torn\":1}\n" + file + "{\"event\":\"run\",\"attempt\":9") == 4);
}

}  // namespace ddp
