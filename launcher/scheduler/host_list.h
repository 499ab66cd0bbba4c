// HostList: the hosts that Slurm writes in its short form, "n[1-4,7,09-11],rack[1-2]-[001-003]".
// Pure. A list is kept as it is written and not expanded: a few bytes can name a billion hosts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace ddprun {

/// Whether a host may be called so: letters, digits, and - _ .
bool is_host_name(std::string_view text);

class HostList {
 public:
  /// Terms stand between commas; in a term each pair of brackets holds numbers and ranges, and the
  /// last pair counts fastest. Numbers are as wide as the first of their range. The rules are those
  /// of `scontrol show hostnames`. An Error shows the text; so does one for more than kNodesMax
  /// hosts. `where` names the variable.
  static Result<HostList> parse(std::string_view text, const std::string& where);

  /// At least 1.
  [[nodiscard]] int size() const { return static_cast<int>(size_); }
  /// From 0 to size() - 1, in the order of the text.
  [[nodiscard]] std::string at(int index) const;
  [[nodiscard]] bool has(std::string_view host) const;

 private:
  struct Range {
    std::uint64_t first;
    std::uint64_t size;
    std::size_t width;  ///< digits, filled up with zeros
  };
  /// What stands before a pair of brackets, and what is in them: nothing at the end of a term.
  struct Part {
    std::string text;
    std::vector<Range> ranges;
    std::uint64_t size = 1;  ///< different texts that this part makes
  };
  struct Term {
    std::vector<Part> parts;
    std::uint64_t size = 1;
  };

  static bool read_ranges(std::string_view text, Part& part);
  static bool read_term(std::string_view text, Term& term);
  static std::string text_of(const Part& part, std::uint64_t index);
  static std::string text_of(const Term& term, std::uint64_t index);

  std::vector<Term> terms_;
  std::uint64_t size_ = 0;
};

}  // namespace ddprun
