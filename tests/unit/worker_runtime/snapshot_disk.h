// What the tests of SnapshotDirectory share: a disk in memory with snapshots on it.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/lossy_files.h"
#include "tests/support/result_text.h"
#include "worker_runtime/snapshot/snapshot_directory.h"

namespace ddp_test {

using Numbers = std::vector<std::uint64_t>;
using Names = std::vector<std::string>;

inline const ddp::FileLayer::Path kPath = "/jobs/snapshot.ddp";

inline ddp::Tensor weights_of(std::int64_t epoch) {
  return ddp::Tensor::from<float>({static_cast<float>(epoch), 2, 3, 4});
}

/// Writes a snapshot whose content follows from its number, as that attempt.
inline ddp::Result<void> write(ddp::SnapshotDirectory& directory, std::uint64_t number,
                               std::uint64_t attempt) {
  ddp::SnapshotState state;
  state.model = "linear";
  state.epochs_run = static_cast<std::int64_t>(number);
  const std::vector<ddp::NamedTensor> tensors = {{"weight", weights_of(state.epochs_run)}};
  const auto* bytes = static_cast<const std::byte*>(tensors[0].tensor.raw());
  return directory.write(number, attempt, encode_state(state), encode_tensor_header(tensors),
                         {{bytes, tensors[0].tensor.size_bytes()}});
}

/// As Snapshot::load() counts, on one disk.
inline std::uint64_t highest_attempt(ddp::SnapshotDirectory& directory) {
  return ddp::highest_attempt({directory.look()});
}

/// The numbers of all that is verified, newest first, and the whole report.
struct Found {
  Numbers numbers;
  ddp::RankReport report;
};

/// Scans, and reads back each snapshot that is found.
inline Found scan(const std::shared_ptr<ddp::FileLayer>& files,
                  const ddp::FileLayer::Path& path = kPath) {
  ddp::SnapshotDirectory directory(files, path, 2);
  Found found{{}, directory.scan()};
  for (const auto& candidate : found.report.verified) {
    found.numbers.push_back(candidate.number);
    const auto loaded = directory.take(candidate);
    REQUIRE(loaded);
    const auto number = static_cast<std::int64_t>(candidate.number);
    CHECK(ddp::decode_state(loaded->state_json)->epochs_run == number);
    const auto places = *ddp::decode_tensor_header(loaded->tensors);
    REQUIRE(places.size() == 1);
    const auto weights = weights_of(number);
    CHECK(std::memcmp(loaded->tensors.data() + places[0].first_byte, weights.raw(),
                      weights.size_bytes()) == 0);
  }
  return found;
}

/// A disk with snapshots 1 and 2, by attempt 1.
inline std::shared_ptr<ddp::LossyFiles> disk_with_two() {
  auto files = std::make_shared<ddp::LossyFiles>();
  REQUIRE(files->make_directory("/jobs"));
  REQUIRE(files->sync_directory("/"));
  ddp::SnapshotDirectory directory(files, kPath, 2);
  REQUIRE(write(directory, 1, 1));
  REQUIRE(write(directory, 2, 1));
  return files;
}

}  // namespace ddp_test
