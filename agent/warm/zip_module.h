// ModuleArchive: one Python module as a zip archive, which is how an interpreter can import from a
// single descriptor (zipimport). Pure.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// An archive of one uncompressed file, `name`. The source is at most 4 GiB, the name 64 KiB.
std::string module_archive(std::string_view name, std::string_view source);

}  // namespace ddprun
