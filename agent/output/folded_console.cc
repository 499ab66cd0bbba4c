#include "agent/output/folded_console.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

namespace ddprun {

namespace {
using Clock = std::chrono::steady_clock;
}  // namespace

struct FoldedConsole::Impl : std::enable_shared_from_this<Impl> {
  Impl(boost::asio::io_context& io, Console& target, StreamFold streams)
      : console(target), fold(std::move(streams)), timer(io) {}

  /// Every call that may have produced text ends here. The text goes out, and the timer follows the
  /// fold's next deadline.
  void show() {
    if (!shown.empty()) {
      console.write(shown);
      shown.clear();
    }
    arm();
  }

  /// A timer that stands early enough is left alone: it finds the next deadline when it fires.
  void arm() {
    const auto deadline = fold.deadline();
    if (!deadline || closed || (armed_for && *armed_for <= *deadline)) {
      return;
    }
    armed_for = *deadline;
    timer.expires_at(*deadline);
    timer.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (error || self->closed) {
        return;
      }
      // Before tick(): arm() sets the next deadline only when no earlier one stands.
      self->armed_for.reset();
      self->fold.tick(Clock::now(), self->shown);
      self->show();
    });
  }

  void flush() {
    fold.flush(Clock::now(), shown, [this](int stream, std::string_view text) {
      // A stream without a file of filtered lines has no filters that could match.
      if (const auto to = filtered.find(stream); to != filtered.end()) {
        to->second(text);
      }
    });
    show();
  }

  Console& console;
  StreamFold fold;
  std::map<int, std::function<void(std::string_view)>> filtered;  // by stream, where it has filters
  std::string shown;  // on its way to the console; kept, so that a flood allocates nothing
  boost::asio::steady_timer timer;
  std::optional<Clock::time_point> armed_for;
  bool closed = false;
};

FoldedConsole::FoldedConsole(boost::asio::io_context& io, Console& console, StreamFold fold)
    : impl_(std::make_shared<Impl>(io, console, std::move(fold))) {}

FoldedConsole::~FoldedConsole() {
  // Before `closed`: no worker of this attempt writes any more, and what waits is still shown.
  impl_->flush();
  // Sinks hold the Impl and may outlive this object; from here on they swallow.
  impl_->closed = true;
  impl_->timer.cancel();
}

OutputSink FoldedConsole::sink(int stream, std::string prefix, std::vector<std::string> filters,
                               std::function<void(std::string_view)> filtered) {
  impl_->fold.join(stream, std::move(prefix), std::move(filters));
  if (filtered) {
    impl_->filtered.insert_or_assign(stream, filtered);
  }
  // Feeding and ending differ in one call; closing, showing and filtering are the same for both.
  const auto pass = [impl = impl_, filtered = std::move(filtered)](auto&& put) {
    if (impl->closed) {
      return;
    }
    std::string matching;
    put(impl->fold, impl->shown, matching);
    impl->show();
    // Files of filtered lines are never folded: programs read them rank by rank (docs/folding.md).
    if (filtered && !matching.empty()) {
      filtered(matching);
    }
  };
  OutputSink sink;
  sink.console = &impl_->console;
  sink.take = [pass, stream](std::string_view bytes) {
    pass([&](StreamFold& fold, std::string& shown, std::string& matching) {
      fold.feed(stream, bytes, Clock::now(), shown, matching);
    });
  };
  sink.at_end = [pass, stream] {
    pass([&](StreamFold& fold, std::string& shown, std::string& matching) {
      fold.end(stream, Clock::now(), shown, matching);
    });
  };
  return sink;
}

void FoldedConsole::flush() {
  impl_->flush();
}

}  // namespace ddprun
