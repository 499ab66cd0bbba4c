#include "worker_runtime/snapshot_directory.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddp {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The last sentence of a damaged snapshot is the same for all kinds of damage.
std::string complaint(const FileLayer::Path& path, std::uint64_t number,
                      const ddprun::Error& error) {
  const auto directory = (path / snapshot_name(number)).string();
  const bool named = error.where.starts_with(directory);
  return (named ? error.where : directory + "/" + error.where) +
         ": damaged snapshot passed over: " + error.what;
}

}  // namespace

SnapshotDirectory::SnapshotDirectory(std::shared_ptr<FileLayer> files, Path path, int keep)
    : files_(std::move(files)), path_(std::move(path)), keep_(static_cast<std::size_t>(keep)) {
  DDP_CHECK(keep >= 1, "the newest snapshot is kept");
}

Result<void> SnapshotDirectory::prepare() {
  const auto made = files_->make_directory(path_);
  if (!made) {
    return made.error();
  }
  parent_unsynced_ = parent_unsynced_ || *made;
  if (parent_unsynced_) {
    if (const auto synced = files_->sync_directory(path_.parent_path()); !synced) {
      return synced.error();
    }
    parent_unsynced_ = false;
  }
  return {};
}

RankReport SnapshotDirectory::scan() {
  RankReport report;
  newest_.reset();
  damaged_.clear();
  const auto names = files_->list(path_);
  if (!names) {
    report.problem = names.error().sentence();
    return report;
  }
  std::vector<std::uint64_t> numbers;
  for (const auto& name : *names) {
    // An unfinished one has used up its number too, or its remains could be taken for the new one.
    const auto digits = is_left_over(name) ? name.substr(name.find('-') + 1) : name;
    if (const auto number = parse_snapshot_name(digits)) {
      report.highest_number = std::max(report.highest_number, *number);
      if (!is_left_over(name)) {
        numbers.push_back(*number);
      }
    }
  }
  std::sort(numbers.rbegin(), numbers.rend());
  for (const auto number : numbers) {
    auto loaded = read(number);
    if (!loaded) {
      damaged_.insert(number);
      report.complaints.push_back(complaint(path_, number, loaded.error()));
      continue;
    }
    report.verified.push_back(loaded->id);
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
  if (loaded && loaded->id != id) {
    return ddprun::Error{"it changed while it was read",
                         (path_ / snapshot_name(id.number)).string(),
                         "let no other job use this snapshot path"};
  }
  return loaded;
}

Result<LoadedSnapshot> SnapshotDirectory::read(std::uint64_t number) {
  const auto directory = path_ / snapshot_name(number);
  const auto manifest_bytes = files_->read(directory / kManifestFile, kSmallFileBytesMax);
  if (!manifest_bytes) {
    return manifest_bytes.error();
  }
  const auto manifest = decode_manifest(text_of(*manifest_bytes));
  if (!manifest) {
    return manifest.error();
  }
  if (manifest->number != number || manifest->files.size() != 2 ||
      manifest->files[0].name != kStateFile || manifest->files[1].name != kTensorsFile) {
    return ddprun::Error{"it belongs to another snapshot", kManifestFile, ""};
  }
  LoadedSnapshot loaded{{number, checksum(*manifest_bytes)}, {}, {}};
  auto state = files_->read(directory / kStateFile, kSmallFileBytesMax);
  if (!state) {
    return state.error();
  }
  auto tensors = files_->read(directory / kTensorsFile, std::numeric_limits<std::size_t>::max());
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

Result<void> SnapshotDirectory::write(std::uint64_t number, std::int64_t attempt,
                                      const std::string& state_json,
                                      const std::string& tensor_header,
                                      const HostTensors& tensors) {
  if (const auto prepared = prepare(); !prepared) {
    return prepared.error();
  }
  const auto aside = path_ / writing_name(number);
  auto result = write_aside(aside, number, attempt, state_json, tensor_header, tensors);
  if (result) {
    result = files_->rename(aside, path_ / snapshot_name(number));
  }
  if (!result) {
    // The space is wanted back at once: the disk may be full. A failure here is prune()'s to mend.
    static_cast<void>(files_->remove_all(aside));
    return result;
  }
  return files_->sync_directory(path_);
}

Result<void> SnapshotDirectory::write_aside(const Path& aside, std::uint64_t number,
                                            std::int64_t attempt, const std::string& state_json,
                                            const std::string& tensor_header,
                                            const HostTensors& tensors) {
  if (const auto removed = files_->remove_all(aside); !removed) {
    return removed.error();
  }
  if (const auto made = files_->make_directory(aside); !made) {
    return made.error();
  }
  const auto state = write_file(aside, kStateFile, {bytes_of(state_json)});
  if (!state) {
    return state.error();
  }
  HostTensors parts = {bytes_of(tensor_header)};
  parts.insert(parts.end(), tensors.begin(), tensors.end());
  const auto data = write_file(aside, kTensorsFile, parts);
  if (!data) {
    return data.error();
  }
  const auto manifest = encode_manifest({number, attempt, {*state, *data}});
  if (const auto written = write_file(aside, kManifestFile, {bytes_of(manifest)}); !written) {
    return written.error();
  }
  return files_->sync_directory(aside);
}

Result<ManifestEntry> SnapshotDirectory::write_file(const Path& aside, const char* name,
                                                    const HostTensors& parts) {
  auto file = files_->create(aside / name);
  if (!file) {
    return file.error();
  }
  ManifestEntry entry{name, 0, 0};
  Checksum sum;
  for (const auto& part : parts) {
    if (const auto appended = (*file)->append(part); !appended) {
      return appended.error();
    }
    sum.add(part);
    entry.size_bytes += part.size();
  }
  entry.xxh3 = sum.value();
  if (const auto synced = (*file)->sync(); !synced) {
    return synced.error();
  }
  if (const auto closed = (*file)->close(); !closed) {
    return closed.error();
  }
  return entry;
}

Result<void> SnapshotDirectory::prune() {
  const auto names = files_->list(path_);
  if (!names) {
    return names.error();
  }
  std::vector<std::string> unwanted;
  std::vector<std::uint64_t> good;
  for (const auto& name : *names) {
    const auto number = parse_snapshot_name(name);
    if (is_left_over(name) || (number && damaged_.contains(*number))) {
      unwanted.push_back(name);
    } else if (number) {
      good.push_back(*number);
    }
  }
  std::sort(good.rbegin(), good.rend());
  for (std::size_t i = keep_; i < good.size(); ++i) {
    unwanted.push_back(snapshot_name(good[i]));
  }
  Result<void> outcome;
  for (const auto& name : unwanted) {
    if (auto removed = remove(name); !removed) {
      outcome = std::move(removed);
    }
  }
  return outcome;
}

Result<void> SnapshotDirectory::remove(const std::string& name) {
  auto doomed = name;
  if (const auto number = parse_snapshot_name(name)) {
    // Half removed it would look damaged to whoever comes next, so it loses its name first.
    doomed = removing_name(*number);
    if (const auto renamed = files_->rename(path_ / name, path_ / doomed); !renamed) {
      return renamed.error();
    }
  }
  return files_->remove_all(path_ / doomed);
}

}  // namespace ddp
