// SnapshotDirectory, the part that finds and reads snapshots.
#include <algorithm>
#include <utility>

#include "worker_runtime/snapshot/snapshot_directory.h"

namespace ddp {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The format names a file, and the disk its path.
std::string place_of(const FileLayer::Path& path, std::uint64_t number,
                     const ddprun::Error& error) {
  const auto directory = (path / snapshot_name(number)).string();
  return error.where.starts_with(directory) ? error.where : directory + "/" + error.where;
}

Withheld withheld_of(const FileLayer::Path& path, std::uint64_t number, const Unread& unread) {
  return {unread.attempt, number, unread.fault,
          place_of(path, number, unread.error) + ": " + unread.error.what};
}

/// Of a directory that cannot be listed.
RankReport without_list(const Unread& unread) {
  RankReport report;
  auto [error, fault, attempt] = unread;
  error.todo = fault == Fault::forbidden    ? "let the user who trains read it, or "
               : fault == Fault::unreadable ? "mend the disk, or "
                                            : "";
  error.todo += kAnotherPath;
  report.problem = error.sentence();
  report.problem_stays = fault != Fault::unreadable;
  return report;
}

}  // namespace

RankReport SnapshotDirectory::look() {
  const auto names = files_->list(path_);
  if (!names) {
    return without_list(names.error());
  }
  RankReport report;
  // The newest first: what is wrong with it counts most.
  std::for_each(names->rbegin(), names->rend(), [&](const std::string& name) {
    if (const auto marked = parse_mark_name(name)) {
      report.marked = std::max(report.marked, *marked);
    } else if (const auto number = parse_snapshot_name(name)) {
      Candidate candidate{0, *number, 0};
      // Marks do not always come along with snapshots that somebody copied here.
      const auto manifest = read_manifest(*number, &candidate.digest);
      std::optional<Unread> refused;
      if (!manifest) {
        refused = manifest.error();
      }
      for (const char* const file : {kStateFile, kTensorsFile}) {
        refused = refused ? refused : files_->refuses_reads(path_ / name / file);
      }
      if (!refused) {
        candidate.attempt = manifest->attempt;
        report.verified.push_back(candidate);
      } else if (refused->fault != Fault::damaged) {
        report.withheld.push_back(withheld_of(path_, *number, *refused));
      }
    }
  });
  marked_ = report.marked;
  return report;
}

/// A user may keep other things under the name of a snapshot: nothing in them is of one.
bool SnapshotDirectory::is_of_others(const std::string& name) {
  const auto files = files_->list(path_ / name);
  return files ? std::none_of(files->begin(), files->end(), is_snapshot_file)
               : files.error().fault == Fault::damaged;
}

RankReport SnapshotDirectory::scan() {
  newest_.reset();
  damaged_.clear();
  const auto names = files_->list(path_);
  if (!names) {
    return without_list(names.error());
  }
  RankReport report;
  report.marked = marked_;
  std::vector<std::uint64_t> numbers;
  for (const auto& name : *names) {
    if (const auto number = parse_snapshot_name(name)) {
      report.highest_number = std::max(report.highest_number, *number);
      numbers.push_back(*number);
    }
  }
  std::sort(numbers.rbegin(), numbers.rend());
  // Each is read in full before the ranks compare: a choice must not turn out damaged afterwards.
  for (const auto number : numbers) {
    auto loaded = read(number);
    if (!loaded) {
      const auto& [error, fault, attempt] = loaded.error();
      const auto place = place_of(path_, number, error);
      if (fault == Fault::damaged && is_of_others(snapshot_name(number))) {
        continue;
      }
      if (fault == Fault::damaged) {
        damaged_.insert(number);
        report.complaints.push_back(place + ": damaged snapshot passed over: " + error.what);
      } else {
        report.withheld.push_back(withheld_of(path_, number, loaded.error()));
        report.complaints.push_back(place + ": snapshot passed over: " + error.what);
      }
      continue;
    }
    report.verified.push_back(loaded->id);
    // The newest one that is good: as a rule load() chooses it, and need not read it again.
    if (!newest_) {
      newest_ = std::move(*loaded);
    }
  }
  return report;
}

Result<LoadedSnapshot> SnapshotDirectory::take(const Candidate& id) {
  auto kept = std::exchange(newest_, std::nullopt);
  if (kept && kept->id == id) {
    return std::move(*kept);
  }
  auto loaded = read(id.number);
  if (!loaded) {
    return loaded.error().error;
  }
  // Another job may write or prune here between scan() and now.
  if (loaded->id != id) {
    return ddprun::Error{"it changed while it was read",
                         (path_ / snapshot_name(id.number)).string(), kOneJob};
  }
  return std::move(*loaded);
}

ReadResult<Manifest> SnapshotDirectory::read_manifest(std::uint64_t number, std::uint64_t* digest) {
  const auto bytes =
      files_->read(path_ / snapshot_name(number) / kManifestFile, kSmallFileBytesMax);
  if (!bytes) {
    return bytes.error();
  }
  auto manifest = decode_manifest(text_of(*bytes));
  // A directory that was renamed or copied by hand has another number in it.
  if (manifest && manifest->number != number) {
    return ddprun::Error{"it belongs to another snapshot", kManifestFile, ""};
  }
  // The manifest has the checksums of both files, so its own stands for all bytes of the snapshot.
  if (digest != nullptr) {
    *digest = checksum(*bytes);
  }
  return manifest;
}

ReadResult<LoadedSnapshot> SnapshotDirectory::read(std::uint64_t number) {
  const auto directory = path_ / snapshot_name(number);
  LoadedSnapshot loaded;
  const auto manifest = read_manifest(number, &loaded.id.digest);
  if (!manifest) {
    return manifest.error();
  }
  // Exactly these, in this order: later code indexes them.
  if (manifest->files.size() != 2 || manifest->files[0].name != kStateFile ||
      manifest->files[1].name != kTensorsFile) {
    return ddprun::Error{"it belongs to another snapshot", kManifestFile, ""};
  }
  loaded.id.attempt = manifest->attempt;
  loaded.id.number = number;
  auto state = files_->read(directory / kStateFile, kSmallFileBytesMax);
  if (!state) {
    return state.error();
  }
  // A model may have any size, but no other than the manifest says.
  auto tensors = files_->read(directory / kTensorsFile, manifest->files[1].size_bytes);
  if (!tensors) {
    return tensors.error();
  }
  for (const auto& verdict :
       {verify_file(manifest->files[0], *state), verify_file(manifest->files[1], *tensors)}) {
    if (!verdict) {
      return verdict.error();
    }
  }
  loaded.state_json = text_of(*state);
  loaded.tensors = std::move(*tensors);
  // What has a good checksum was written by us; still, a reader trusts nothing that it indexes by.
  if (const auto decoded = decode_state(loaded.state_json); !decoded) {
    return decoded.error();
  }
  if (const auto places = decode_tensor_header(loaded.tensors); !places) {
    return places.error();
  }
  return loaded;
}

}  // namespace ddp
