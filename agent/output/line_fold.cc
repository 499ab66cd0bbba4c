#include "agent/output/line_fold.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// What is due within this is due: a flow of different lines must not cost a timer each.
constexpr std::chrono::milliseconds kTogether{10};
/// What a waiting line costs beside its text.
constexpr std::size_t kItemBytes = 128;

/// A carriage return inside a line means that the cursor goes back.
bool moves_back(std::string_view line) {
  const auto at = line.find('\r');
  return at != std::string_view::npos && at + 2 < line.size();
}

}  // namespace

/// Slurm's form of lists: three or more in a row become a range, two neighbours stay "2,3".
std::string rank_list(const std::vector<int>& ranks) {
  DDP_CHECK(std::is_sorted(ranks.begin(), ranks.end()), "a range has its ranks in order");
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) {
      ++end;
    }
    text += (text.empty() ? "" : ",") + std::to_string(ranks[i]);
    if (end - i > 1) {
      text += (end - i > 2 ? "-" : ",") + std::to_string(ranks[end - 1]);
    }
    i = end;
  }
  return text;
}

LineFold::LineFold(int members, Label label, bool by_lines)
    : label_(std::move(label)), by_lines_(by_lines), members_(static_cast<std::size_t>(members)) {
  DDP_CHECK(members > 0, "lines come from somebody");
  for (int i = 0; i < members; ++i) {
    members_[static_cast<std::size_t>(i)].label = label_({i});
  }
}

void LineFold::join(int member) {
  Member& one = members_.at(static_cast<std::size_t>(member));
  joined_ += std::exchange(one.joined, true) ? 0 : 1;
  DDP_CHECK(joined_ <= static_cast<int>(members_.size()), "a member joins once");
}

/// A worker that has ended is not waited for: lines that only it could have joined are shown.
void LineFold::leave(int member, Time now, std::string& shown) {
  now_ = now;
  Member& one = members_.at(static_cast<std::size_t>(member));
  joined_ -= std::exchange(one.joined, false) ? 1 : 0;
  DDP_CHECK(joined_ >= 0, "a member leaves once");
  show_settled(shown);
}

void LineFold::add(int member, const LinePiece& piece, Time now, std::string& shown) {
  now_ = now;
  Member& one = members_.at(static_cast<std::size_t>(member));
  count_burst(one, piece.text.size(), shown);
  const bool whole = piece.begins && piece.ends && piece.text.size() <= kFoldedLineBytesMax;
  // A part of a line cannot be compared, and a line that moves the cursor means something only at
  // its place.
  if (one.flooding || !whole || moves_back(piece.text)) {
    add_as_it_is(member, piece, shown);
  } else {
    add_line(member, piece.text);
  }
  show_settled(shown);
  // A bound on memory: one worker may write fast while another is silent for the whole wait.
  if (held_bytes_ > kHeldBytesMax) {
    flush(shown);
  }
}

/// Whether it floods now. Its own lines are shown when it begins to, so that it overtakes none.
void LineFold::count_burst(Member& member, std::size_t bytes, std::string& shown) {
  if (now_ - member.burst_begin >= kWait) {
    const bool went_on = now_ - member.burst_begin < 2 * kWait;
    member.flooding = went_on && member.burst_bytes > kBurstBytesMax;
    member.burst_begin = now_;
    member.burst_bytes = 0;
  }
  member.burst_bytes += bytes;
  if (!member.flooding && member.burst_bytes > kBurstBytesMax) {
    show_until(member.last + 1, shown);
    member.flooding = true;
  }
}

std::optional<LineFold::Sequence> LineFold::place_for(const Member& member, std::string_view text,
                                                      std::size_t hash) const {
  const auto found = open_.find(hash);
  if (found == open_.end()) {
    return std::nullopt;
  }
  const auto& places = found->second;
  // Only places behind the member's own last line, or its lines would change their order. The texts
  // are compared, since equal hashes prove nothing.
  for (auto at = std::upper_bound(places.begin(), places.end(), member.last); at != places.end();
       ++at) {
    DDP_CHECK(*at >= first_ && *at - first_ < static_cast<Sequence>(queue_.size()),
              "an open place is in the queue");
    if (queue_[static_cast<std::size_t>(*at - first_)].text == text) {
      return *at;
    }
  }
  return std::nullopt;
}

void LineFold::add_line(int member, std::string_view text) {
  Member& one = members_[static_cast<std::size_t>(member)];
  const std::size_t hash = std::hash<std::string_view>()(text);
  if (const auto place = place_for(one, text, hash)) {
    DDP_CHECK(*place > one.last, "a member joins only behind its own last line");
    queue_[static_cast<std::size_t>(*place - first_)].members.push_back(member);
    one.last = *place;
    return;
  }
  Item item;
  item.text = text;
  item.hash = hash;
  item.foldable = true;
  item.begins_line = true;
  item.deadline = now_ + kWait;
  // A copy of a line that is on the screen already may wait longer, for other late copies.
  const auto shown = remembered_.find(hash);
  if (shown != remembered_.end() && now_ - shown->second.at <= kRemembered &&
      !shown->second.members[static_cast<std::size_t>(member)]) {
    item.others = shown->second.members;
    item.deadline = now_ + kLateWait;
  }
  push(member, std::move(item));
  std::vector<Sequence>& places = open_[hash];
  DDP_CHECK(places.empty() || places.back() < one.last, "places of one text ascend");
  places.push_back(one.last);
}

void LineFold::add_as_it_is(int member, const LinePiece& piece, std::string& shown) {
  const Member& one = members_[static_cast<std::size_t>(member)];
  // Nothing of this member waits, so the piece overtakes none of its lines.
  if (!waits(one)) {
    show_direct(one, piece, shown);
    return;
  }
  Item item;
  item.text = piece.text;
  item.begins_line = piece.begins;
  item.deadline = now_ + kWait;
  push(member, std::move(item));
}

void LineFold::push(int member, Item item) {
  DDP_CHECK(item.members.empty(), "a line has one author when it comes");
  item.members.push_back(member);
  held_bytes_ += item.text.size() + kItemBytes;
  queue_.push_back(std::move(item));
  members_[static_cast<std::size_t>(member)].last =
      first_ + static_cast<Sequence>(queue_.size()) - 1;
  DDP_CHECK(waits(members_[static_cast<std::size_t>(member)]), "what was just queued waits");
}

void LineFold::show_direct(const Member& member, const LinePiece& piece, std::string& shown) {
  show(member, piece.begins ? member.label : "", piece.text, shown);
}

/// `label`: of the line, where it begins.
void LineFold::show(const Member& member, std::string_view label, std::string_view text,
                    std::string& shown) {
  if (!by_lines_) {
    shown.append(label).append(text);
  } else if (label.empty()) {
    line_.append(&member, text, shown);
  } else {
    line_.append(&member, std::string(label).append(text), shown);
  }
}

/// No member can join it any more, or needs to: each that is not in it has written something later.
bool LineFold::settled(const Item& item) {
  if (!item.foldable) {
    return true;
  }
  const auto may_join = [&](std::size_t i) {
    const Member& member = members_[i];
    return member.joined && !member.flooding && member.last < first_ &&
           (item.others.empty() || !item.others[i]);
  };
  // The member that held up the last look most likely still does; the scan over all is then spared.
  if (may_join(blocker_)) {
    return false;
  }
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (may_join(i)) {
      blocker_ = i;
      return false;
    }
  }
  return true;
}

void LineFold::show_settled(std::string& shown) {
  while (!queue_.empty() && settled(queue_.front())) {
    show_first(shown);
  }
}

void LineFold::show_until(Sequence end, std::string& shown) {
  while (!queue_.empty() && first_ < end) {
    show_first(shown);
  }
}

void LineFold::show_first(std::string& shown) {
  DDP_CHECK(!queue_.empty(), "there is a first line");
  Item& item = queue_.front();
  DDP_CHECK(!item.members.empty(), "every line was written by somebody");
  // Labels of single members are made once: a flow of different lines makes none.
  if (item.begins_line && item.members.size() > 1) {
    std::sort(item.members.begin(), item.members.end());
    show(members_[static_cast<std::size_t>(item.members.front())], label_(item.members), item.text,
         shown);
  } else {
    const Member& author = members_[static_cast<std::size_t>(item.members.front())];
    show(author, item.begins_line ? author.label : "", item.text, shown);
  }
  if (item.foldable) {
    // Lines leave in the order of the queue, so this place is the first one of its hash.
    const auto places = open_.find(item.hash);
    DDP_CHECK(places != open_.end() && places->second.front() == first_,
              "the first line of the queue is not the first of its text");
    places->second.erase(places->second.begin());
    if (places->second.empty()) {
      open_.erase(places);
    }
    remember(item);
  }
  DDP_CHECK(held_bytes_ >= item.text.size() + kItemBytes, "what is held was counted");
  held_bytes_ -= item.text.size() + kItemBytes;
  queue_.pop_front();
  ++first_;
  DDP_CHECK(!queue_.empty() || (held_bytes_ == 0 && open_.empty()),
            "of an empty queue nothing is held, and nothing can be joined");
}

/// Who has written it, for those that come late. Two texts of one hash: a late line waits for
/// nobody, at worst for kLateWait.
void LineFold::remember(const Item& item) {
  if (alone()) {
    return;
  }
  auto [at, is_new] = remembered_.try_emplace(item.hash);
  Shown& known = at->second;
  if (is_new) {
    remembered_order_.push_back(item.hash);
  }
  if (is_new || item.others.empty()) {
    known.members.assign(members_.size(), false);
  }
  known.at = now_;
  for (const int member : item.members) {
    known.members[static_cast<std::size_t>(member)] = true;
  }
  DDP_CHECK(remembered_.size() == remembered_order_.size(), "what is remembered can be forgotten");
  if (remembered_order_.size() > kRememberedMax) {
    DDP_CHECK(remembered_order_.size() == kRememberedMax + 1, "one line at a time is remembered");
    remembered_.erase(remembered_order_.front());
    remembered_order_.pop_front();
  }
}

void LineFold::tick(Time now, std::string& shown) {
  now_ = now;
  Sequence end = first_;
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    // Deadlines do not ascend where late lines are among them: all before the last due one go, too.
    if (queue_[i].deadline <= now + kTogether) {
      end = first_ + static_cast<Sequence>(i) + 1;
    }
  }
  DDP_CHECK(end <= first_ + static_cast<Sequence>(queue_.size()), "what is due is in the queue");
  show_until(end, shown);
  show_settled(shown);
  DDP_CHECK(queue_.empty() || queue_.front().deadline > now + kTogether, "nothing due waits on");
}

std::optional<LineFold::Time> LineFold::deadline() const {
  std::optional<Time> earliest;
  for (const Item& item : queue_) {
    earliest = std::min(earliest.value_or(item.deadline), item.deadline);
    if (item.others.empty()) {
      break;  // deadlines of the others behind it are later; those of late lines ascend as well
    }
  }
  return earliest;
}

void LineFold::flush(std::string& shown) {
  show_until(first_ + static_cast<Sequence>(queue_.size()), shown);
  DDP_CHECK(queue_.empty(), "nothing waits after a flush");
}

}  // namespace ddprun
