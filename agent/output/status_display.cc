#include "agent/output/status_display.h"

#include <fmt/core.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "agent/output/console.h"
#include "agent/output/status_text.h"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kRedrawInterval{1};
constexpr std::string_view kLinePrefix = "[ddprun] ";
/// A terminal that does not say how wide it is.
constexpr std::size_t kColumnsUnknown = 80;

/// Before each line of the log: ends what a worker wrote without an end (a progress bar). Counts
/// the lines, so that the board knows when its table is not the last thing on the terminal any
/// more.
class LineEndSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit LineEndSink(Console& console) : console_(console) {}
  [[nodiscard]] std::size_t lines() const { return lines_; }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    (void)message;
    console_.end_line();
    ++lines_;
  }
  void flush_() override {}

 private:
  Console& console_;
  std::size_t lines_ = 0;
};

/// TERM=dumb, as in an editor's shell or a CI log, cannot move the cursor.
bool can_redraw(int fd) {
  const char* const term = std::getenv("TERM");
  return ::isatty(fd) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

/// A serial console, or a terminal inside a container, may give 0 columns.
std::size_t columns_of(int fd) {
  winsize size{};
  const bool known = ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kColumnsUnknown;
}

}  // namespace

struct StatusDisplay::Impl {
  Impl(boost::asio::io_context& io, Console& the_console, int the_fd,
       std::shared_ptr<spdlog::logger> the_log)
      : console(the_console),
        fd(the_fd),
        log(std::move(the_log)),
        before_lines(std::make_shared<LineEndSink>(console)),
        timer(io),
        live(can_redraw(fd)) {
    // Any line of the log moves the table up, from wherever it comes: so all lines are counted.
    log->sinks().insert(log->sinks().begin(), before_lines);
  }
  /// The log outlives the board, since the agent's last lines go there.
  ~Impl() { std::erase(log->sinks(), before_lines); }

  void show(const RendezvousStatus& told) {
    // LOGLEVEL=ERROR asks for less than a table of what is waited for.
    if (!log->should_log(spdlog::level::warn)) {
      return;
    }
    table = told;
    told_at = std::chrono::steady_clock::now();
    if (live) {
      redraw();
      return;
    }
    for (const std::string& line : waiting_lines(table)) {
      log->warn("{}", line);
    }
  }

  void redraw() {
    // One column less than there are: a full line makes some terminals wrap.
    const std::size_t columns = std::max<std::size_t>(columns_of(fd), 2) - 1;
    if (drawn == 0) {
      console.end_line();
    }
    std::string text = erased();
    for (std::string line : waiting_lines(table, std::chrono::steady_clock::now() - told_at)) {
      line.insert(0, kLinePrefix);
      text += line.substr(0, columns) + "\n";
      ++drawn;
    }
    // A line of the log after this scrolls the table away: it is then left where it is.
    drawn_after = before_lines->lines();
    console.write(text);
    if (table.waits_for == RendezvousStatus::For::turn) {
      return;  // its text has no times in it
    }
    // Redrawn, since the times in it go on.
    timer.expires_after(kRedrawInterval);
    timer.async_wait([this](boost::system::error_code stopped) {
      if (!stopped) {
        redraw();
      }
    });
  }

  /// What takes the drawn table away, if it still is the last thing on the terminal.
  std::string erased() {
    const std::size_t lines = std::exchange(drawn, 0);
    if (lines == 0 || before_lines->lines() != drawn_after) {
      return {};
    }
    // CPL and ED of ECMA-48: back to the table's first line, then erase to the end of the screen.
    return fmt::format("\x1b[{}F\x1b[J", lines);
  }

  void clear() {
    timer.cancel();
    if (const std::string text = erased(); !text.empty()) {
      console.write_escapes(text);
    }
  }

  Console& console;
  int fd;
  std::shared_ptr<spdlog::logger> log;
  std::shared_ptr<LineEndSink> before_lines;
  boost::asio::steady_timer timer;
  bool live;
  RendezvousStatus table;
  std::chrono::steady_clock::time_point told_at;
  std::size_t drawn = 0;        ///< lines of the table on the terminal
  std::size_t drawn_after = 0;  ///< lines that the log had then
};

StatusDisplay::StatusDisplay(boost::asio::io_context& io, Console& console, int fd,
                             std::shared_ptr<spdlog::logger> log)
    : impl_(std::make_unique<Impl>(io, console, fd, std::move(log))) {}

StatusDisplay::~StatusDisplay() = default;

void StatusDisplay::show(const RendezvousStatus& table) {
  impl_->show(table);
}

void StatusDisplay::clear() {
  impl_->clear();
}

}  // namespace ddprun
