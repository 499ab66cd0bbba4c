#include "agent/output/string_template.h"

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// Python's idpattern is (?a:[_a-z][_a-z0-9]*) with IGNORECASE: ASCII letters of either case.
bool is_name_start(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_name_char(char c) {
  return is_name_start(c) || (c >= '0' && c <= '9');
}

/// The name at the begin of `text`; empty when there is none.
std::string_view leading_name(std::string_view text) {
  if (text.empty() || !is_name_start(text.front())) {
    return {};
  }
  std::size_t size = 1;
  while (size < text.size() && is_name_char(text[size])) {
    ++size;
  }
  return text.substr(0, size);
}

}  // namespace

std::string safe_substitute(std::string_view text, const TemplateValues& values) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto dollar = text.find('$');
    out += text.substr(0, dollar);
    if (dollar == std::string_view::npos) {
      break;
    }
    text.remove_prefix(dollar);
    DDP_CHECK(text.front() == '$', "what stands before a dollar is done");
    // `text` begins with the dollar; `used` becomes the length of what it introduces.
    std::size_t used = 1;
    std::string_view name;
    if (text.starts_with("$$")) {
      out.push_back('$');
      text.remove_prefix(2);
      continue;
    }
    if (text.starts_with("${")) {
      name = leading_name(text.substr(2));
      // An empty or unclosed "${" is text: safe_substitute raises nothing.
      const bool closed = !name.empty() && text.substr(2 + name.size()).starts_with('}');
      name = closed ? name : std::string_view();
      used = closed ? name.size() + 3 : 1;
    } else {
      name = leading_name(text.substr(1));
      used = 1 + name.size();
    }
    DDP_CHECK(used >= 1 && used <= text.size(), "every turn takes the dollar at least");
    const auto value = values.find(name);
    out += !name.empty() && value != values.end() ? value->second : text.substr(0, used);
    text.remove_prefix(used);
  }
  return out;
}

}  // namespace ddprun
