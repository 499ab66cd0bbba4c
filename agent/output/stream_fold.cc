#include "agent/output/stream_fold.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {

StreamFold::StreamFold(int streams, Unfinished unfinished, const LineFold::Label& label)
    : unfinished_(unfinished), fold_(streams, label, unfinished == Unfinished::kept) {
  streams_.assign(static_cast<std::size_t>(streams), Stream{LogFilter({}, {}), {}});
}

void StreamFold::join(int stream, std::string prefix, std::vector<std::string> filters) {
  streams_.at(static_cast<std::size_t>(stream)).filter =
      LogFilter(std::move(prefix), std::move(filters));
  fold_.join(stream);
}

/// What the filter cuts goes to the fold as it is, without a copy.
LogFilter::OnPiece StreamFold::adder(int stream, Time now, std::string& shown) {
  return
      [this, stream, now, &shown](const LinePiece& piece) { fold_.add(stream, piece, now, shown); };
}

void StreamFold::feed(int stream, std::string_view bytes, Time now, std::string& shown,
                      std::string& filtered) {
  Stream& from = streams_.at(static_cast<std::size_t>(stream));
  if (unfinished_ == Unfinished::passed && fold_.flooding(stream)) {
    bytes = pass_whole_lines(stream, bytes, now, shown, filtered);
  }
  // A line that goes on keeps the deadline of its first piece; a new one gets its own.
  const bool had_unfinished = !from.filter.unfinished().empty() && bytes.find('\n') == bytes.npos;
  from.filter.feed(bytes, adder(stream, now, shown), filtered);
  if (from.filter.unfinished().empty()) {
    from.unfinished_until.reset();
    return;
  }
  if (unfinished_ == Unfinished::kept) {
    return;
  }
  // A prompt shows at once where no other worker writes, and so does the rest of a line whose begin
  // is shown.
  if (fold_.alone() || from.filter.inside_line() ||
      from.filter.unfinished().find('\r') != std::string_view::npos) {
    // What was begun comes first; after finish() the filter stands at the begin of a line again.
    release(stream, now, shown, filtered);
  } else if (!had_unfinished) {
    from.unfinished_until = now + LineFold::kWait;
  }
}

/// A flood without prefixes need not be cut into its lines. What is left to be fed.
std::string_view StreamFold::pass_whole_lines(int stream, std::string_view bytes, Time now,
                                              std::string& shown, std::string& filtered) {
  DDP_CHECK(unfinished_ == Unfinished::passed, "only a reader without prefixes takes lines whole");
  const auto size = bytes.rfind('\n') + 1;
  // All up to the last newline is one piece: a flood is not worth the cost of its lines.
  if (size > 0) {
    release(stream, now, shown, filtered);
    fold_.add(stream, {bytes.substr(0, size), false, true}, now, shown);
    streams_[static_cast<std::size_t>(stream)].filter.finish(adder(stream, now, shown), filtered);
  }
  return bytes.substr(size);
}

void StreamFold::release(int stream, Time now, std::string& shown, std::string& filtered) {
  Stream& from = streams_[static_cast<std::size_t>(stream)];
  from.filter.release(adder(stream, now, shown), filtered);
  DDP_CHECK(from.filter.unfinished().empty(), "what is released does not wait any more");
  from.unfinished_until.reset();
}

void StreamFold::end(int stream, Time now, std::string& shown, std::string& filtered) {
  Stream& from = streams_.at(static_cast<std::size_t>(stream));
  // Others write behind a teed line, and their lines begin with a prefix.
  if (unfinished_ == Unfinished::kept && from.filter.has_open_line()) {
    from.filter.feed("\n", adder(stream, now, shown), filtered);
  }
  from.filter.finish(adder(stream, now, shown), filtered);
  DDP_CHECK(from.filter.unfinished().empty(), "a stream that has ended is shown to its end");
  from.unfinished_until.reset();
  fold_.leave(stream, now, shown);
}

/// Whole lines first: an unfinished one came after those of its worker.
void StreamFold::tick(Time now, std::string& shown) {
  fold_.tick(now, shown);
  // Only relayed streams are released by time, and they have no filters: only teed ones do.
  std::string no_filters;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].unfinished_until && *streams_[i].unfinished_until <= now) {
      release(static_cast<int>(i), now, shown, no_filters);
    }
  }
}

std::optional<StreamFold::Time> StreamFold::deadline() const {
  std::optional<Time> earliest = fold_.deadline();
  for (const Stream& stream : streams_) {
    if (const auto until = stream.unfinished_until) {
      earliest = std::min(earliest.value_or(*until), *until);
    }
  }
  return earliest;
}

void StreamFold::flush(Time now, std::string& shown, const OnFiltered& on_filtered) {
  fold_.flush(shown);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    std::string filtered;
    release(static_cast<int>(i), now, shown, filtered);  // nothing of it waits: shown as it is
    if (!filtered.empty()) {
      on_filtered(static_cast<int>(i), filtered);
    }
  }
  DDP_CHECK(!deadline(), "nothing waits after a flush");
}

}  // namespace ddprun
