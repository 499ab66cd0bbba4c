#include "worker_runtime/snapshot/snapshot_directory.h"

#include <fmt/core.h>

#include <algorithm>
#include <future>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddp {
namespace {

/// What becomes of a file that is removed while somebody has it open (nfs(5)'s "silly rename").
constexpr char kStillOpenOnNfs[] = ".nfs";

}  // namespace

SnapshotDirectory::SnapshotDirectory(std::shared_ptr<FileLayer> files, Path path, int keep)
    : files_(std::move(files)), path_(std::move(path)), keep_(static_cast<std::size_t>(keep)) {
  DDP_CHECK(keep >= 1, "the newest snapshot is kept");
}

Result<void> SnapshotDirectory::prepare() {
  const auto made = files_->make_directories(path_);
  if (!made) {
    return made.error();
  }
  parent_unsynced_ = parent_unsynced_ || *made;
  // Until it works: a crash could otherwise take the directory with all its snapshots. But what may
  // be written and not read, as a box for letters, cannot be opened for it.
  if (parent_unsynced_) {
    const Path parent = path_.has_parent_path() ? path_.parent_path() : Path(".");
    const auto synced = files_->sync_directory(parent);
    const auto refused = synced ? std::nullopt : files_->refuses_reads(parent);
    if (!synced && !(refused && refused->fault == Fault::forbidden)) {
      return synced.error();
    }
    parent_unsynced_ = false;
  }
  return {};
}

Result<void> SnapshotDirectory::claim(std::uint64_t attempt) {
  if (const auto prepared = prepare(); !prepared) {
    return prepared.error();
  }
  // Before a mark is made, which would end a training of whoever may save here.
  if (const auto refused = attempt == attempt_ ? std::nullopt : closed()) {
    return *refused;
  }
  const auto made = files_->make_directory(path_ / mark_name(attempt));
  if (!made) {
    return made.error();
  }
  // mkdir(2) decides between two processes that have the same attempt number.
  if (!*made && attempt != attempt_) {
    return ddprun::Error{"another process saves as attempt " + std::to_string(attempt),
                         path_.string(), kOneJob};
  }
  // Before the look below, which compares marks with it.
  attempt_ = attempt;
  // In this order: the own mark is made, then others are looked for. Of two that do so at the same
  // time at least one sees the other, so an earlier attempt cannot make its mark anew unseen.
  const auto names = names_unless_superseded();
  if (!names) {
    return names.error();
  }
  // With what earlier versions of this library left, which had no marks.
  std::vector<std::string> earlier;
  for (const auto& name : *names) {
    const auto marked = parse_mark_name(name);
    if (is_left_over(name) || (marked && *marked < attempt)) {
      earlier.push_back(name);
    }
  }
  if (const auto moved = move_into_mark(earlier); !moved) {
    return moved.error();
  }
  // Each save comes by here: where nothing has changed, nothing is synced.
  if (*made || !earlier.empty()) {
    if (const auto synced = files_->sync_directory(path_); !synced) {
      return synced.error();
    }
    // What stays is in nobody's way, and prune() tries again.
    static_cast<void>(empty_mark());
  }
  return {};
}

/// Marks of another user can be neither moved nor emptied: a directory is moved by who may write in
/// it.
std::optional<ddprun::Error> SnapshotDirectory::closed() {
  if (auto refused = files_->refuses_writes(path_)) {
    refused->error.todo =
        refused->fault == Fault::forbidden ? "let the user who trains write there, or " : "";
    refused->error.todo += kAnotherPath;
    return refused->error;
  }
  const auto names = files_->list(path_);
  for (const auto& name : names ? *names : std::vector<std::string>()) {
    auto refused = parse_mark_name(name) ? files_->refuses_writes(path_ / name) : std::nullopt;
    if (refused) {
      refused->error.todo = "remove it once nothing of that user trains here, or ";
      refused->error.todo += kAnotherPath;
      return refused->error;
    }
  }
  return std::nullopt;
}

/// All names here, or an Error that says which later attempt writes here now.
Result<std::vector<std::string>> SnapshotDirectory::names_unless_superseded() {
  auto names = files_->list(path_);
  for (const auto& name : names ? *names : std::vector<std::string>()) {
    const auto marked = parse_mark_name(name);
    // Remembered: a mark that was seen once ends this writer, also if it is removed again.
    later_attempt_ = std::max(later_attempt_, marked && *marked > attempt_ ? *marked : 0);
  }
  if (superseded()) {
    return ddprun::Error{
        fmt::format(
            "attempt {} saves here now; this worker belongs to attempt {} and may not any more",
            later_attempt_, attempt_),
        path_.string(), kOneJob};
  }
  if (!names) {
    return names.error().error;
  }
  return std::move(*names);
}

/// The error, or what is behind it.
ddprun::Error SnapshotDirectory::explained(const ddprun::Error& error) {
  const auto names = names_unless_superseded();
  return superseded() ? names.error() : error;
}

/// It goes on after a failure: one that stays must not keep all that come behind it.
Result<void> SnapshotDirectory::move_into_mark(const std::vector<std::string>& names) {
  Result<void> outcome;
  for (const auto& name : names) {
    if (const auto moved = files_->rename(path_ / name, mark() / name); outcome && !moved) {
      outcome = explained(moved.error());
    }
  }
  return outcome;
}

/// Between two writes nothing in the mark is wanted.
Result<void> SnapshotDirectory::empty_mark() {
  const auto names = files_->list(mark());
  if (!names) {
    return names.error().error;
  }
  // It goes on after a failure: each file that goes makes room.
  Result<void> outcome;
  for (const auto& name : *names) {
    if (auto removed = files_->remove_all(mark() / name); !removed) {
      outcome = std::move(removed);
    }
  }
  return outcome;
}

/// A save on one disk, in the steps of docs/snapshot.md.
Result<void> SnapshotDirectory::write(std::uint64_t number, std::uint64_t attempt,
                                      const std::string& state_json,
                                      const std::string& tensor_header,
                                      const HostTensors& tensors) {
  // Again each time: the directory may have been removed, or the disk was full at the start.
  if (const auto claimed = claim(attempt); !claimed) {
    return claimed.error();
  }
  const auto aside = mark() / snapshot_name(number);
  auto result = write_aside(aside, number, state_json, tensor_header, tensors);
  if (result) {
    // The commit. A later attempt either finds this snapshot or has taken the mark, and then this
    // call fails.
    result = files_->rename(aside, path_ / snapshot_name(number));
  }
  if (!result) {
    // The space is wanted back at once: the disk may be full. A failure here is prune()'s to mend.
    static_cast<void>(files_->remove_all(aside));
    return explained(result.error());
  }
  // Now the new name survives a crash, too.
  return files_->sync_directory(path_);
}

Result<void> SnapshotDirectory::write_aside(const Path& aside, std::uint64_t number,
                                            const std::string& state_json,
                                            const std::string& tensor_header,
                                            const HostTensors& tensors) {
  // From a save that failed and could not be cleaned up.
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
  // Last: where it is, both files are complete and on the disk.
  const auto manifest = encode_manifest({number, attempt_, {*state, *data}});
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
  for (const auto& part : parts) {
    entry.size_bytes += part.size();
  }
  // Of what was meant to be written, not of what the disk gives back: so a bad disk shows at the
  // next read. Large files: while the disk works.
  const auto sum_of = [&parts] {
    Checksum sum;
    for (const auto& part : parts) {
      sum.add(part);
    }
    return sum.value();
  };
  constexpr std::size_t kLargeBytes = std::size_t{16} << 20;
  auto sum = std::async(
      entry.size_bytes >= kLargeBytes ? std::launch::async : std::launch::deferred, sum_of);
  for (auto part : parts) {
    // In pieces: large enough for the disk to work on several of their pages at once.
    constexpr std::size_t kPieceBytes = std::size_t{8} << 20;
    while (!part.empty()) {
      const auto piece = part.first(std::min(part.size(), kPieceBytes));
      if (const auto appended = (*file)->append(piece); !appended) {
        return appended.error();
      }
      part = part.subspan(piece.size());
    }
  }
  entry.xxh3 = sum.get();
  if (const auto synced = (*file)->sync(); !synced) {
    return synced.error();
  }
  if (const auto closed = (*file)->close(); !closed) {
    return closed.error();
  }
  return entry;
}

/// Whether that is a snapshot, damaged or not: all of its files are there, and nothing else. A
/// user's own directory, or a link to one, may have the name of one, that of a day, and is never
/// removed.
Result<bool> SnapshotDirectory::is_snapshot(const std::string& name) {
  const auto files = files_->list(path_ / name);
  if (!files) {
    const Fault fault = files.error().fault;
    const bool of_others = fault == Fault::damaged || fault == Fault::forbidden;
    return of_others ? Result<bool>(false) : files.error().error;
  }
  const auto of_snapshot = std::count_if(files->begin(), files->end(), is_snapshot_file);
  const auto still_open = std::count_if(files->begin(), files->end(), [](const std::string& file) {
    return file.starts_with(kStillOpenOnNfs);
  });
  return of_snapshot == kSnapshotFiles && of_snapshot + still_open == std::ssize(*files) &&
         !files_->is_link(path_ / name);
}

Result<void> SnapshotDirectory::prune() {
  const auto names = files_->list(path_);
  if (!names) {
    return names.error().error;
  }
  std::vector<std::string> unwanted;
  std::vector<std::uint64_t> good;
  for (const auto& name : *names) {
    const auto number = parse_snapshot_name(name);
    const auto ours = number ? is_snapshot(name) : false;
    if (!ours) {
      return ours.error();
    }
    if (*ours) {
      // A damaged one does not count among those that are kept.
      if (damaged_.contains(*number)) {
        unwanted.push_back(name);
      } else {
        good.push_back(*number);
      }
    }
  }
  std::sort(good.rbegin(), good.rend());
  // The newest come first, and stay.
  for (std::size_t i = keep_; i < good.size(); ++i) {
    unwanted.push_back(snapshot_name(good[i]));
  }
  // Half removed one would look damaged, so it loses its place first.
  const auto moved = move_into_mark(unwanted);
  const auto emptied = empty_mark();
  return moved ? emptied : moved;
}

}  // namespace ddp
