#include "launcher/list_options.h"

#include <map>

#include "launcher/python_numbers.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

bool is_stream_value(char c) {
  return c >= '0' && c <= '3';
}

Streams streams(char digit) {
  return static_cast<Streams>(digit - '0');
}

/// Adds the part to the list, without blanks, unless nothing is left of it: "a,,b" and "a, b" are
/// lists of two, as people write them in YAML and shell variables.
void add_part(std::vector<std::string>& parts, std::string_view part) {
  if (part = trimmed(part); !part.empty()) {
    parts.emplace_back(part);
  }
}

}  // namespace

/// As torchrun's Std.from_str, which has two expressions for it: ^[0-3]$ for all local ranks, and
/// ^(\d:[0-3],)*(\d:[0-3])$ for single ones. So a local rank above 9 cannot be named.
Result<StreamMap> parse_stream_map(std::string_view text, const std::string& where) {
  if (text.size() == 1 && is_stream_value(text[0])) {
    return StreamMap{streams(text[0])};
  }
  // A rank that is named twice has its last value, as a key of Python's dict.
  std::map<int, Streams> by_rank;
  // Entries are "R:V", four characters apart with their commas.
  bool good = text.size() % 4 == 3;
  for (std::size_t at = 0; good && at < text.size(); at += 4) {
    good = text[at] >= '0' && text[at] <= '9' && text[at + 1] == ':' &&
           is_stream_value(text[at + 2]) && (at + 3 == text.size() || text[at + 3] == ',');
    if (good) {
      by_rank[text[at] - '0'] = streams(text[at + 2]);
    }
  }
  if (!good) {
    return Error{"'" + std::string(text) + "' is not a map of streams", where,
                 "give 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such a digit for single "
                 "local ranks, as in 0:3,1:2"};
  }
  return StreamMap{std::move(by_rank)};
}

Result<std::vector<int>> parse_ranks(std::string_view text, const std::string& where) {
  std::vector<int> ranks;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto rank = read_int(text.substr(0, comma));
    // Python's split(",") has an empty text behind a comma at the end, and int("") fails.
    const bool dangling = comma != std::string_view::npos && comma + 1 == text.size();
    if (!rank || *rank < 0 || dangling) {
      return Error{"'" + std::string(text) + "' is not a list of local ranks", where,
                   "write for example 0,1"};
    }
    ranks.push_back(*rank);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return ranks;
}

std::vector<std::string> split_commas(std::string_view text) {
  std::vector<std::string> parts;
  for (bool more = true; more;) {
    const auto comma = text.find(',');
    add_part(parts, text.substr(0, comma));
    more = comma != std::string_view::npos;
    text.remove_prefix(more ? comma + 1 : text.size());
  }
  return parts;
}

// A filter is a text of a program's output, and that may have commas in it.
std::vector<std::string> split_filters(std::string_view text) {
  std::vector<std::string> parts;
  std::string part;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      part += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ',') {
      part += ',';
      ++i;
    } else {
      add_part(parts, part);
      part.clear();
    }
  }
  add_part(parts, part);
  return parts;
}

std::string in_quotes(std::string_view text) {
  return "'" + std::string(text) + "'";
}

}  // namespace ddprun
