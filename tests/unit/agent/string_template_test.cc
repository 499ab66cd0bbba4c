// The expected texts are what Python 3.11's string.Template(text).safe_substitute(values) gives.
#include "agent/output/string_template.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

using ddprun::safe_substitute;

TEST_CASE("a template is filled as Python's string.Template does it safely", "[agent]") {
  const ddprun::TemplateValues values{{"local_rank", "3"}, {"rank", "11"}, {"role", "a$rank"}};
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", ""},
      {"plain", "plain"},
      {"$local_rank", "3"},
      {"${local_rank}", "3"},
      {"x${local_rank}y", "x3y"},
      {"--rank=$rank,$local_rank", "--rank=11,3"},
      {"$local_ranks", "$local_ranks"},
      {"$local_rank1", "$local_rank1"},
      {"$local_rank-1", "3-1"},
      {"$local_rank.log", "3.log"},
      {"$local_rank\xc3\xa9", "3\xc3\xa9"},
      {"$rank$local_rank", "113"},
      {"${rank}${local_rank}", "113"},
      {"$$", "$"},
      {"$$local_rank", "$local_rank"},
      {"$$$local_rank", "$3"},
      {"$$$$", "$$"},
      {"$", "$"},
      {"end$", "end$"},
      {"$ local_rank", "$ local_rank"},
      {"$1", "$1"},
      {"$-local_rank", "$-local_rank"},
      {"${", "${"},
      {"${}", "${}"},
      {"${local_rank", "${local_rank"},
      {"${local_rank ", "${local_rank "},
      {"${ local_rank}", "${ local_rank}"},
      {"${$local_rank}", "${3}"},
      {"${unknown}$unknown$local_rank", "${unknown}$unknown3"},
      {"$LOCAL_RANK ${LOCAL_RANK}", "$LOCAL_RANK ${LOCAL_RANK}"},
      {"{local_rank}", "{local_rank}"},
      {"$role", "a$rank"},
      {"$_", "$_"},
  };
  for (const auto& [text, expected] : rows) {
    INFO(text);
    CHECK(safe_substitute(text, values) == expected);
  }
}

TEST_CASE("a template keeps bytes that are no text", "[agent]") {
  const std::string bytes("\0\xff$local_rank\0", 14);
  CHECK(safe_substitute(bytes, {{"local_rank", "0"}}) == std::string("\0\xff"
                                                                     "0\0",
                                                                     4));
}
