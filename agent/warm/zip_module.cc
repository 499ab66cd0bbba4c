#include "agent/warm/zip_module.h"

#include <boost/crc.hpp>
#include <cstdint>
#include <limits>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

// The records of PKWARE's APPNOTE.TXT, numbers little-endian.
constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kCentralHeader = 0x02014b50;
constexpr std::uint32_t kEndOfDirectory = 0x06054b50;
constexpr std::uint16_t kVersion = 20;
/// 1980-01-01, the first day that the format knows: the archive is the same in every run.
constexpr std::uint16_t kDate = (1 << 5) | 1;

/// The least significant byte first, whatever the order of this machine.
template <typename Number>
void put(std::string& out, Number number) {
  for (std::size_t byte = 0; byte < sizeof number; ++byte) {
    out += static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * byte) & 0xff);
  }
}

/// APPNOTE.TXT 4.4.7: the CRC of Ethernet and zlib.
std::uint32_t crc32(std::string_view bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

/// What local and central header have in common: from the version to the length of extra fields.
std::string description(std::string_view name, std::string_view source) {
  std::string out;
  put(out, kVersion);
  put(out, std::uint16_t{0});  // flags
  put(out, std::uint16_t{0});  // stored
  put(out, std::uint16_t{0});  // time
  put(out, kDate);
  put(out, crc32(source));
  put(out, static_cast<std::uint32_t>(source.size()));
  put(out, static_cast<std::uint32_t>(source.size()));
  put(out, static_cast<std::uint16_t>(name.size()));
  put(out, std::uint16_t{0});  // extra fields
  return out;
}

}  // namespace

std::string module_archive(std::string_view name, std::string_view source) {
  DDP_CHECK(name.size() <= std::numeric_limits<std::uint16_t>::max(), "a file name is short");
  DDP_CHECK(source.size() <= std::numeric_limits<std::uint32_t>::max(), "a module is small");
  const std::string described = description(name, source);
  DDP_CHECK(described.size() == 26, "both headers have these fields in 26 bytes");
  std::string out;
  // Stored, not compressed: zipimport needs zlib for the latter, which an interpreter may lack.
  put(out, kLocalHeader);
  out += described;
  out += name;
  out += source;
  const std::size_t directory = out.size();
  // A reader begins at the end: the end record leads to the directory, and that to the file.
  put(out, kCentralHeader);
  put(out, kVersion);
  out += described;
  put(out, std::uint16_t{0});  // comment
  put(out, std::uint16_t{0});  // disk
  put(out, std::uint16_t{0});  // internal attributes
  put(out, std::uint32_t{0});  // external attributes
  put(out, std::uint32_t{0});  // where the local header is
  out += name;
  const std::size_t directory_bytes = out.size() - directory;
  DDP_CHECK(directory_bytes == 46 + name.size(),
            "an entry of the directory has 46 bytes and a name");
  put(out, kEndOfDirectory);
  put(out, std::uint16_t{0});  // this disk
  put(out, std::uint16_t{0});  // the directory's disk
  put(out, std::uint16_t{1});  // entries here
  put(out, std::uint16_t{1});  // entries in all
  put(out, static_cast<std::uint32_t>(directory_bytes));
  put(out, static_cast<std::uint32_t>(directory));
  put(out, std::uint16_t{0});  // comment
  return out;
}

}  // namespace ddprun
