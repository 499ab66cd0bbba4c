// LineFold: the lines of several workers on their way to one console -> each line once, with the
// ranks that wrote it. Pure: time comes in with each call, and deadline() says when to call again.
//
// The rule. Lines wait in one queue, in the order they came. A worker that writes a line which
// waits there, behind the worker's own last one, joins it. The first line of the queue is shown as
// soon as nobody can join it any more: every worker has written it or something after it. Nothing
// waits longer than kWait. So no worker's lines change their order, none is lost, none shown twice.
//
// Late ones. When a line has been shown and other workers write the same one within kRemembered,
// their copies wait up to kLateWait for each other: its text is on the screen already, and eight
// processes that start do not reach their first warning within kWait. They do not wait behind
// anything new: a new line takes those before it along.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/output/log_filter.h"
#include "agent/output/open_line.h"

namespace ddprun {

/// "0-7", "0,2-5". `ranks` ascend.
std::string rank_list(const std::vector<int>& ranks);

class LineFold {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// What stands before a line that these members wrote. They ascend; at least one.
  using Label = std::function<std::string(const std::vector<int>& members)>;

  /// Longest wait of a line. Less than a person notices, and longer than workers that run in step
  /// are apart.
  static constexpr std::chrono::milliseconds kWait{100};
  static constexpr std::chrono::milliseconds kLateWait{1'000};
  static constexpr std::chrono::seconds kRemembered{10};
  /// Lines that have been shown and are remembered, the newest.
  static constexpr std::size_t kRememberedMax = 1024;
  /// A longer line is shown unfolded.
  static constexpr std::size_t kFoldedLineBytesMax = 4096;
  /// A member that writes more than this within kWait is not read by anybody: it is passed on as
  /// fast as it comes until it writes less.
  static constexpr std::size_t kBurstBytesMax = 256 * 1024;
  /// What may wait, over all members; more than this, and all of it is shown.
  static constexpr std::size_t kHeldBytesMax = 4 * 1024 * 1024;

  /// Members are 0..members-1. Nobody is waited for before its join(). `by_lines`: a line that
  /// comes in pieces ends where another member's begins (open_line.h); progress bars would not
  /// survive it.
  LineFold(int members, Label label, bool by_lines = false);

  void join(int member);
  /// The member writes no more: nobody waits for it. What it wrote stays in the queue.
  void leave(int member, Time now, std::string& shown);

  /// The next piece of what this member writes. A whole line may be folded; parts of lines, and
  /// lines that move the cursor back (a progress bar), are shown as they are, at once when nothing
  /// of the same member waits. `shown` is appended to by all of these.
  void add(int member, const LinePiece& piece, Time now, std::string& shown);
  /// Time has passed.
  void tick(Time now, std::string& shown);
  /// When to call tick(); nothing waits without one.
  [[nodiscard]] std::optional<Time> deadline() const;
  /// Everything that waits.
  void flush(std::string& shown);

  /// This member writes more than anybody reads (kBurstBytesMax): nothing of it waits.
  [[nodiscard]] bool flooding(int member) const {
    return members_.at(static_cast<std::size_t>(member)).flooding;
  }
  /// At most one member is there: it waits for nobody.
  [[nodiscard]] bool alone() const { return joined_ <= 1; }

 private:
  using Sequence = std::int64_t;

  struct Member {
    bool joined = false;
    bool flooding = false;
    Sequence last = -1;  // its newest place in the queue, shown or not
    Time burst_begin{};
    std::size_t burst_bytes = 0;
    std::string label;
  };
  struct Item {
    std::string text;
    std::size_t hash = 0;
    std::vector<int> members;
    Time deadline;
    bool foldable = false;
    bool begins_line = false;
    std::vector<bool> others;  // a late line: who wrote it before it was last shown
  };
  struct Shown {
    std::vector<bool> members;
    Time at;
  };

  [[nodiscard]] bool waits(const Member& member) const { return member.last >= first_; }
  [[nodiscard]] bool settled(const Item& item);
  [[nodiscard]] std::optional<Sequence> place_for(const Member& member, std::string_view text,
                                                  std::size_t hash) const;
  void count_burst(Member& member, std::size_t bytes, std::string& shown);
  void add_line(int member, std::string_view text);
  void add_as_it_is(int member, const LinePiece& piece, std::string& shown);
  void push(int member, Item item);
  void show_direct(const Member& member, const LinePiece& piece, std::string& shown);
  void show(const Member& member, std::string_view label, std::string_view text,
            std::string& shown);
  void show_first(std::string& shown);
  void show_until(Sequence end, std::string& shown);
  void show_settled(std::string& shown);
  void remember(const Item& item);

  Label label_;
  bool by_lines_;
  OpenLine line_;
  std::vector<Member> members_;
  int joined_ = 0;
  std::size_t blocker_ = 0;  // who kept the first item from being settled, when last looked
  Time now_{};
  std::deque<Item> queue_;
  Sequence first_ = 0;  // place of queue_.front()
  std::size_t held_bytes_ = 0;
  std::unordered_map<std::size_t, std::vector<Sequence>> open_;  // by hash, ascending
  std::unordered_map<std::size_t, Shown> remembered_;            // by hash
  std::deque<std::size_t> remembered_order_;
};

}  // namespace ddprun
