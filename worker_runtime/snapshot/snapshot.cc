#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "ddp/snapshot.h"
#include "worker_runtime/snapshot/file_layer.h"
#include "worker_runtime/snapshot/snapshot_choice.h"
#include "worker_runtime/snapshot/snapshot_directory.h"
#include "worker_runtime/snapshot/snapshot_format.h"

namespace ddp {
namespace {

void say_on_stderr(std::string_view line) {
  // One call, so that the lines of several workers do not mix.
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

/// Names are keys of a JSON object in the file, where __metadata__ is the format's own.
void check_names(std::span<const NamedTensor> tensors) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    if (name.empty() || name == "__metadata__" || !names.insert(name).second) {
      throw InvalidArgument("snapshot: tensor name '" + name +
                            "' is empty, reserved or given twice");
    }
  }
}

Tensor byte_tensor(std::byte* bytes, std::size_t count) {
  return Tensor::wrap(bytes, {static_cast<std::int64_t>(count)}, DType::u8, Device::cpu(), nullptr);
}

/// Everybody ends up with the root's bytes. In pieces, so that no backend has to take more than it
/// can count.
void broadcast_large(ProcessGroup& group, std::vector<std::byte>& bytes, int root) {
  constexpr std::size_t kPieceBytes = std::size_t{64} << 20;
  bytes.resize(std::stoull(group.broadcast_bytes(std::to_string(bytes.size()), root)));
  for (std::size_t first = 0; first < bytes.size(); first += kPieceBytes) {
    const auto count = std::min(kPieceBytes, bytes.size() - first);
    group.broadcast(byte_tensor(bytes.data() + first, count), root);
  }
}

void fill(const Tensor& tensor, std::span<const std::byte> bytes) {
  if (!bytes.empty()) {
    tensor.copy_from_host(bytes.data());
  }
}

/// Tells that the worker saves or loads, as long as it lives.
class InPhase {
 public:
  InPhase(Progress& progress, Phase phase) : progress_(&progress), before_(progress.phase()) {
    progress.enter(phase);
  }
  ~InPhase() { progress_->enter(before_); }
  InPhase(const InPhase&) = delete;
  InPhase& operator=(const InPhase&) = delete;

 private:
  Progress* progress_;
  Phase before_;
};

}  // namespace

struct Snapshot::Impl {
  Impl(const Context& the_context, SnapshotOptions the_options)
      : context(&the_context),
        options(std::move(the_options)),
        // Absolute: the program may change its working directory before it saves.
        directory(real_files(), std::filesystem::absolute(options.path).lexically_normal(),
                  options.keep) {
    if (!options.say) {
      options.say = say_on_stderr;
    }
  }

  /// One writer for each disk: rank 0 where all see one directory, else local rank 0 of each node.
  [[nodiscard]] bool writes() const {
    return !options.read_only && (shared ? context->rank() == 0 : context->local_rank() == 0);
  }

  /// One more than any rank finds, so that the first attempt of a new job comes after all before.
  std::uint64_t next_attempt() {
    std::uint64_t highest = 0;
    // Each rank looks: a node that comes back may have marks on its disk that no other node has
    // seen.
    const auto mine = std::to_string(directory.highest_attempt());
    for (const auto& found : context->group().all_gather_bytes(mine)) {
      highest = std::max<std::uint64_t>(highest, std::stoull(found));
    }
    return after(highest);
  }

  /// Manifests and marks above the bound are not believed, so only one with the bound itself, made
  /// by hand, comes here. Its next attempt could leave no mark, and nothing would fence it.
  [[nodiscard]] std::uint64_t after(std::uint64_t attempt) const {
    if (attempt >= kAttemptMax) {
      throw Error(directory.path().string() + ": attempt " + std::to_string(attempt) +
                  " has left a snapshot or a mark here, and no attempt can follow it; use another "
                  "snapshot path");
    }
    return attempt + 1;
  }

  /// What the writers find, once nobody of an earlier attempt can add to it.
  RankReport claim_and_scan() {
    std::string superseded;
    if (writes()) {
      const auto claimed = directory.claim(attempt);
      if (!claimed && directory.superseded()) {
        superseded = claimed.error().sentence();
      }  // any other failure is said by each save
    }
    auto report = directory.scan();
    report.disk = shared ? 0 : context->node_rank();
    if (!superseded.empty()) {
      report.problem = superseded;
    }
    return report;
  }

  /// The reports of all ranks, in rank order.
  std::vector<RankReport> exchange(const RankReport& mine) {
    std::vector<RankReport> reports;
    for (const auto& bytes : context->group().all_gather_bytes(encode_report(mine))) {
      auto report = decode_report(bytes);
      if (!report) {
        throw Error(report.error().sentence());
      }
      reports.push_back(std::move(*report));
    }
    return reports;
  }

  /// The chosen snapshot's bytes on every rank.
  LoadedSnapshot obtain(const Choice& choice, bool have) {
    auto& group = context->group();
    LoadedSnapshot loaded{*choice.chosen, {}, {}};
    std::string problem;
    if (have) {
      auto taken = directory.take(*choice.chosen);
      if (taken) {
        loaded = std::move(*taken);
      } else {
        problem = taken.error().sentence();
      }
    }
    // What scan() keeps in memory is as large as the model.
    directory.forget();
    // It was verified a moment ago, so a failure now is rare; but all must hear of it.
    for (const auto& text : group.all_gather_bytes(problem)) {
      if (!text.empty()) {
        throw Error(text);
      }
    }
    // Only where a rank lacks it: this takes as long as the model is large.
    if (choice.send) {
      loaded.state_json = group.broadcast_bytes(loaded.state_json, choice.source);
      broadcast_large(group, loaded.tensors, choice.source);
    }
    return loaded;
  }

  const Context* context;
  SnapshotOptions options;
  SnapshotDirectory directory;
  bool shared = false;
  std::uint64_t attempt = 0;  // as SnapshotDirectory counts them; 0: not agreed on yet
  std::uint64_t next_number = 1;
};

Snapshot::Snapshot(const Context& context, SnapshotOptions options) {
  if (options.keep < 1) {
    throw InvalidArgument("snapshot: keep is " + std::to_string(options.keep) +
                          ", at least 1 is needed");
  }
  impl_ = std::make_unique<Impl>(context, std::move(options));
  if (!impl_->options.read_only) {
    // Where it cannot be made, saving will say so each time; there may still be others' to load.
    static_cast<void>(impl_->directory.prepare());
  }
  // A collective: every rank makes its Snapshot.
  impl_->shared =
      context.world_size() == 1 || is_shared_directory(context, impl_->directory.path());
}

Snapshot::~Snapshot() = default;
Snapshot::Snapshot(Snapshot&&) noexcept = default;
Snapshot& Snapshot::operator=(Snapshot&&) noexcept = default;

std::optional<SnapshotState> Snapshot::load(std::string_view model,
                                            std::span<const NamedTensor> tensors) {
  check_names(tensors);
  const InPhase loading(impl_->context->progress(), Phase::loading);
  impl_->attempt = impl_->next_attempt();
  // Claimed before the look: no earlier attempt commits after it, so what is found is all there is
  // (docs/snapshot.md).
  const auto mine = impl_->claim_and_scan();
  const auto reports = impl_->exchange(mine);
  const auto choice = choose(reports);
  // Each complaint says what happens instead: a person needs one line.
  const auto instead = choice.chosen
                           ? "; snapshot " + snapshot_name(choice.chosen->number) + " is used"
                           : std::string("; there is no other, training starts afresh");
  // Before the throw below, which they may explain.
  for (const auto& complaint : complaints_to_say(reports, impl_->context->rank())) {
    impl_->options.say(complaint + instead);
  }
  // All ranks have the same reports: all throw, and no rank waits in the next collective.
  if (!choice.problem.empty()) {
    throw Error(choice.problem);
  }
  // One that no rank has seen, damaged snapshots included.
  impl_->next_number = choice.next_number;
  if (!choice.chosen) {
    return std::nullopt;
  }
  // By attempt, number and digest: another disk may have other bytes under this number.
  const bool have =
      std::find(mine.verified.begin(), mine.verified.end(), *choice.chosen) != mine.verified.end();
  const auto loaded = impl_->obtain(choice, have);
  const auto where = (impl_->options.path / snapshot_name(choice.chosen->number)).string();
  // On each rank, also on those that were sent the bytes.
  const auto state = decode_state(loaded.state_json);
  const auto places = decode_tensor_header(loaded.tensors);
  if (!state || !places) {
    throw Error(where + ": " + (state ? places.error() : state.error()).sentence());
  }
  if (const auto same = check_model(*state, *places, model, tensors); !same) {
    throw Error(where + ": " + same.error().sentence());
  }
  // check_model has found each place among the tensors, with the same type and shape.
  for (const auto& place : *places) {
    const auto target = std::find_if(tensors.begin(), tensors.end(),
                                     [&](const auto& t) { return t.name == place.name; });
    fill(target->tensor, std::span(loaded.tensors).subspan(place.first_byte, place.byte_count));
  }
  return *state;
}

SaveResult Snapshot::save(SnapshotState state, std::span<const NamedTensor> tensors) {
  check_names(tensors);
  if (impl_->options.read_only) {
    throw InvalidArgument("snapshot: " + path().string() + " was opened with read_only");
  }
  // Counted on every rank, written or not, so that the disks of all nodes agree on numbers.
  const auto number = impl_->next_number++;
  if (!impl_->writes()) {
    return SaveResult::not_mine;
  }
  const InPhase saving(impl_->context->progress(), Phase::saving);
  // A program that saves without load() has agreed on nothing: it follows the newest attempt of its
  // own disk.
  if (impl_->attempt == 0) {
    impl_->attempt = impl_->after(impl_->directory.highest_attempt());
  }
  state.attempt = static_cast<std::int64_t>(impl_->attempt);
  std::vector<Tensor> on_host;
  HostTensors parts;
  for (const auto& [name, tensor] : tensors) {
    // Copies of tensors on a GPU live until write() has read them.
    on_host.push_back(tensor.device().is_cpu() ? tensor : tensor.to(Device::cpu()));
    parts.emplace_back(static_cast<const std::byte*>(on_host.back().raw()), tensor.size_bytes());
  }
  const auto written = impl_->directory.write(number, impl_->attempt, encode_state(state),
                                              encode_tensor_header(tensors), parts);
  // A superseded worker must end, since its training is not the job's any more. Any other failure
  // costs this snapshot only.
  if (!written && impl_->directory.superseded()) {
    throw Error(written.error().sentence() + "; snapshot " + snapshot_name(number) +
                " was not saved");
  }
  if (!written) {
    impl_->options.say(written.error().sentence() + "; snapshot " + snapshot_name(number) +
                       " was not saved, training goes on");
    return SaveResult::failed;
  }
  if (const auto pruned = impl_->directory.prune(); !pruned) {
    impl_->options.say(pruned.error().sentence() + "; old snapshots take up space");
  }
  return SaveResult::saved;
}

const std::filesystem::path& Snapshot::path() const {
  return impl_->options.path;
}
bool Snapshot::shared() const {
  return impl_->shared;
}

}  // namespace ddp
