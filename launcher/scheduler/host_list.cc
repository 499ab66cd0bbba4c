#include "launcher/scheduler/host_list.h"

#include <algorithm>
#include <cctype>

#include "launcher/list_options.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"
#include "rendezvous/membership/node_description.h"

namespace ddprun {
namespace {

/// Sizes end here, so that no product of them overflows.
constexpr std::uint64_t kTooMany = static_cast<std::uint64_t>(kNodesMax) + 1;
/// Of a number. Eighteen digits always fit into 64 bits.
constexpr std::size_t kDigitsMax = 18;

std::uint64_t capped(std::uint64_t size) {
  return std::min(size, kTooMany);
}

}  // namespace

bool is_host_name(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

/// "1-4,7,09-11", without the brackets.
bool HostList::read_ranges(std::string_view text, Part& part) {
  part.size = 0;
  for (const std::string_view item : parts_of(text, ',')) {
    const auto dash = item.find('-');
    const std::string_view low = item.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : item.substr(dash + 1);
    const auto first = parse_number<std::uint64_t>(low);
    const auto last = parse_number<std::uint64_t>(high);
    if (!first || !last || *first > *last || std::max(low.size(), high.size()) > kDigitsMax) {
      return false;
    }
    // The first number's zeros count: [08-10] is 08, 09, 10.
    part.ranges.push_back({*first, *last - *first + 1, low.size()});
    part.size = capped(part.size + capped(*last - *first + 1));
  }
  DDP_CHECK(part.size > 0, "a range that was read holds a number");
  return true;
}

/// "rack[1-2]-[001-003]"
bool HostList::read_term(std::string_view text, Term& term) {
  while (!text.empty()) {
    // Text, then brackets or the end: `rack`, [1-2], `-`, [001-003].
    const auto open = text.find('[');
    const auto close = text.find(']');
    Part part;
    part.text = text.substr(0, open);
    if (!is_host_name(part.text)) {
      return false;
    }
    if (open == std::string_view::npos) {
      text = {};
    } else if (close == std::string_view::npos || close < open ||
               !read_ranges(text.substr(open + 1, close - open - 1), part)) {
      return false;
    } else {
      text.remove_prefix(close + 1);
    }
    term.size = capped(term.size * part.size);
    term.parts.push_back(std::move(part));
  }
  return !term.parts.empty();
}

Result<HostList> HostList::parse(std::string_view text, const std::string& where) {
  // The text is consumed below, and the message shows all of it.
  const std::string shown = in_quotes(text);
  const std::string todo = "give --rdzv-endpoint HOST:PORT, or --no-scheduler";
  const Error unreadable{shown + " is not a list of hosts such as n[1-4,7]", where, todo};
  HostList list;
  while (!text.empty()) {
    // A comma between brackets ends no term.
    bool in_brackets = false;
    std::size_t end = 0;
    for (; end < text.size() && (in_brackets || text[end] != ','); ++end) {
      in_brackets = text[end] == '[' || (in_brackets && text[end] != ']');
    }
    Term term;
    if (!read_term(text.substr(0, end), term)) {
      return unreadable;
    }
    list.size_ = capped(list.size_ + term.size);
    list.terms_.push_back(std::move(term));
    const bool ended = end == text.size();
    text.remove_prefix(ended ? end : end + 1);
    if (!ended && text.empty()) {
      return unreadable;  // a comma at the end: something was cut off
    }
  }
  if (list.terms_.empty()) {
    return unreadable;
  }
  if (list.size_ >= kTooMany) {
    return Error{shown + " names more than " + std::to_string(kNodesMax) + " hosts", where, todo};
  }
  return list;
}

std::string HostList::text_of(const Part& part, std::uint64_t index) {
  DDP_CHECK(index < part.size, "the index is one of this part's");
  std::string text = part.text;
  for (const Range& range : part.ranges) {
    if (index < range.size) {
      const std::string number = std::to_string(range.first + index);
      text.append(range.width - std::min(range.width, number.size()), '0');
      return text + number;
    }
    index -= range.size;
  }
  return text;
}

std::string HostList::text_of(const Term& term, std::uint64_t index) {
  DDP_CHECK(index < term.size, "the index is one of this term's");
  // The last part counts fastest, so the text is made from its end.
  std::string host;
  for (auto part = term.parts.rbegin(); part != term.parts.rend(); ++part) {
    host.insert(0, text_of(*part, index % part->size));
    index /= part->size;
  }
  DDP_CHECK(index == 0, "the parts make as many texts as the term has hosts");
  return host;
}

std::string HostList::at(int index) const {
  DDP_CHECK(index >= 0 && index < size(), "the index is one of this list's");
  auto rest = static_cast<std::uint64_t>(index);
  // A step for each term, not for each host.
  const auto* term = terms_.data();
  for (; rest >= term->size; ++term) {
    rest -= term->size;
  }
  return text_of(*term, rest);
}

bool HostList::has(std::string_view host) const {
  return std::any_of(terms_.begin(), terms_.end(), [host](const Term& term) {
    for (std::uint64_t index = 0; index < term.size; ++index) {
      if (text_of(term, index) == host) {
        return true;
      }
    }
    return false;
  });
}

}  // namespace ddprun
