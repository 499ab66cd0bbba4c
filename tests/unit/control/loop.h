// Loop: an io_context that tests run until something has happened, with a deadline.
#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <sstream>
#include <string>

namespace ddprun {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

class Loop {
 public:
  Loop()
      : log(std::make_shared<spdlog::logger>(
            "test", std::make_shared<spdlog::sinks::ostream_sink_st>(lines_))) {
    log->set_level(spdlog::level::debug);
    log->flush_on(spdlog::level::debug);
  }

  /// Runs handlers until the condition holds; fails the test when it does not in time.
  template <class Condition>
  void until(Condition condition, std::chrono::milliseconds limit = 10s) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
      if (std::chrono::steady_clock::now() >= deadline) {
        FAIL("nothing came within the limit; the log says:\n" << lines_.str());
      }
      io.restart();
      io.run_one_for(20ms);
    }
  }
  /// Runs handlers for a while in which nothing is expected.
  void run_for(std::chrono::milliseconds time) {
    io.restart();
    io.run_for(time);
  }
  [[nodiscard]] bool logged(const std::string& text) const {
    return lines_.str().find(text) != std::string::npos;
  }
  [[nodiscard]] int times_logged(const std::string& text) const {
    const std::string all = lines_.str();
    int times = 0;
    for (auto at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) {
      ++times;
    }
    return times;
  }

 private:
  std::ostringstream lines_;

 public:
  boost::asio::io_context io;
  std::shared_ptr<spdlog::logger> log;
};

}  // namespace ddprun
