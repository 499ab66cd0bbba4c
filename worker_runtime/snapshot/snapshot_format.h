// The snapshot format: bytes on the disk and their meaning, for reader and writer alike. Pure: no
// file is opened here. docs/snapshot.md describes the same for people.
//
//   snapshot.ddp/                  the snapshot path
//     00000007/                    one snapshot; numbers grow and are never reused
//       tensors.safetensors        every tensor, readable by the safetensors libraries
//       state.json                 SnapshotState
//       manifest.json              number, attempt, and name, size and checksum of the other two
//     .attempt-00000003/           the mark of the attempt that may write here
//       00000008/                  being written; moved out when it is complete and synced
//       00000006/                  no longer needed; moved in before it is taken apart
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/snapshot.h"
#include "rendezvous/base/result.h"
#include "worker_runtime/snapshot/snapshot_fault.h"
#include "worker_runtime/snapshot/snapshot_tensors.h"

namespace ddp {

inline constexpr char kStateFile[] = "state.json";
inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr int kSnapshotFiles = 3;
/// Whether a snapshot has a file of that name.
bool is_snapshot_file(std::string_view name);
/// Bound of what is read before its checksum is known: far above what a state needs.
inline constexpr std::size_t kSmallFileBytesMax = std::size_t{16} << 20;

/// A manifest or a mark of a later attempt is none: no job can have reached it, and the attempt
/// after it would have no mark.
inline constexpr std::uint64_t kAttemptMax = std::numeric_limits<std::uint64_t>::max() / 2 - 1;

/// XXH3 of 64 bits with seed 0, over bytes that may come in pieces.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void add(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t value() const;

 private:
  void* state_;
};

std::uint64_t checksum(std::span<const std::byte> bytes);
/// 16 lower-case hexadecimal digits.
std::string to_hex(std::uint64_t value);

std::span<const std::byte> bytes_of(std::string_view text);

/// Why this state could not be read again once it is written; empty: it could.
std::string why_not_storable(const SnapshotState& state);
/// The same of tensors with these names.
std::string why_not_storable(std::span<const NamedTensor> tensors);
std::string encode_state(const SnapshotState& state);
Result<SnapshotState> decode_state(std::string_view json);

struct ManifestEntry {
  std::string name;
  std::uint64_t size_bytes = 0;
  std::uint64_t xxh3 = 0;
  friend bool operator==(const ManifestEntry&, const ManifestEntry&) = default;
};

struct Manifest {
  std::uint64_t number = 0;
  std::uint64_t attempt = 0;
  std::vector<ManifestEntry> files;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// Carries a checksum of its own. The same manifest gives the same bytes on every machine.
std::string encode_manifest(const Manifest& manifest);
/// Accepts only what encode_manifest() wrote, byte for byte, so that no flipped bit gets through.
/// One of a later version is Fault::newer.
ReadResult<Manifest> decode_manifest(std::string_view text);
/// An Error (`where` is the file's name) unless size and checksum are those of the entry.
Result<void> verify_file(const ManifestEntry& entry, std::span<const std::byte> bytes);

/// An Error unless the snapshot holds this model and exactly these tensors. The sentence names the
/// first difference.
Result<void> check_model(const SnapshotState& state, std::span<const TensorPlace> places,
                         std::string_view model, std::span<const NamedTensor> tensors);

/// "00000007"; longer from 10^8 on.
std::string snapshot_name(std::uint64_t number);
/// Nothing unless it is a snapshot's name.
std::optional<std::uint64_t> parse_snapshot_name(std::string_view name);
/// ".attempt-00000003".
std::string mark_name(std::uint64_t attempt);
/// Nothing unless it is an attempt's mark.
std::optional<std::uint64_t> parse_mark_name(std::string_view name);
/// True for what an interrupted save or removal of an earlier version of this library left.
bool is_left_over(std::string_view name);

}  // namespace ddp
