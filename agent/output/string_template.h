// StringTemplate: Python's string.Template.safe_substitute, which torchrun applies to the arguments
// of workers and to the template of line prefixes. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace ddprun {

using TemplateValues = std::map<std::string, std::string, std::less<>>;

/// `$name` and `${name}` become the value of that name, `$$` becomes `$`. All else stays as it is:
/// unknown names, a `$` before anything that is no name, `${` without an end. A name is an ASCII
/// letter or underscore, then letters, digits and underscores, as long as it can be. Values are put
/// in as they are: a `$` in a value means nothing.
std::string safe_substitute(std::string_view text, const TemplateValues& values);

}  // namespace ddprun
