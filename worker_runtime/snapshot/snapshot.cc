#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <future>
#include <unordered_map>
#include <utility>

#include "ddp/snapshot.h"
#include "worker_runtime/snapshot/file_layer.h"
#include "worker_runtime/snapshot/host_copy.h"
#include "worker_runtime/snapshot/snapshot_choice.h"
#include "worker_runtime/snapshot/snapshot_directory.h"
#include "worker_runtime/snapshot/snapshot_format.h"

namespace ddp {
namespace {

void say_on_stderr(std::string_view line) {
  // One call, so that the lines of several workers do not mix.
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

/// What load() could not read must not be saved either: good snapshots would go for it.
template <class Part>
void require_storable(const Part& part) {
  if (const std::string why_not = why_not_storable(part); !why_not.empty()) {
    throw InvalidArgument("snapshot: " + why_not);
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

/// How a write ended, and what the training thread has to say or throw.
struct Written {
  SaveOutcome outcome;
  std::string line;         ///< to say; empty: nothing
  bool superseded = false;  ///< then `line` is thrown
};

/// Destructors cannot throw.
void say_to(const std::function<void(std::string_view)>& say, const std::string& line) noexcept {
  try {
    say(line);
  } catch (...) {
    return;
  }
}

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

  /// The thread uses `directory` to its end.
  ~Impl() {
    settle();
    if (unreported && !unreported->line.empty()) {
      say_to(options.say, unreported->line);
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// One writer for each disk: rank 0 where all see one directory, else local rank 0 of each node.
  [[nodiscard]] bool writes() const {
    return !options.read_only && (shared ? context->rank() == 0 : context->local_rank() == 0);
  }

  /// One more than any rank finds, so that the first attempt of a new job comes after all before.
  /// Who may not train here learns it now: a mark would end a job of who may.
  std::uint64_t next_attempt() {
    // Each rank looks: a node that comes back may have marks on its disk that no other node has
    // seen.
    auto mine = directory.look();
    mine.disk = disk();
    const auto reports = exchange(mine);
    refuse(choose(reports));
    return after(highest_attempt(reports));
  }

  /// All ranks have the same reports: all throw, and no rank waits in the next collective.
  static void refuse(const Choice& choice) {
    if (!choice.problem.empty()) {
      choice.problem_stays ? throw DoNotRetry(choice.problem) : throw Error(choice.problem);
    }
  }

  [[nodiscard]] std::int64_t disk() const { return shared ? 0 : context->node_rank(); }

  /// Manifests and marks above the bound are not believed, so only one with the bound itself, made
  /// by hand, comes here. Its next attempt could leave no mark, and nothing would fence it.
  [[nodiscard]] std::uint64_t after(std::uint64_t attempt) const {
    if (attempt >= kAttemptMax) {
      throw DoNotRetry(
          fmt::format("{}: attempt {} has left a snapshot or a mark here, and no attempt can "
                      "follow it; use another snapshot path",
                      directory.path().string(), attempt));
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
    report.disk = disk();
    if (!superseded.empty()) {
      report.problem = superseded;
      report.problem_stays = true;
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

  /// Takes a number, on every rank alike, so that the disks of all nodes agree on numbers; nullopt
  /// where another rank writes.
  std::optional<std::uint64_t> next_save(const SnapshotState& state,
                                         std::span<const NamedTensor> tensors) {
    require_storable(state);
    require_storable(tensors);
    if (options.read_only) {
      throw InvalidArgument("snapshot: " + options.path.string() + " was opened with read_only");
    }
    const auto number = next_number++;
    return writes() ? std::optional(number) : std::nullopt;
  }

  [[nodiscard]] bool writing() const {
    return pending.valid() &&
           pending.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  }

  /// Before any use of `directory`: it is the thread's as long as a save goes on. Keeps how that
  /// ended for poll().
  void settle() {
    if (pending.valid()) {
      unreported = pending.get();
    }
  }

  /// Says or throws what the save in the background left.
  std::optional<SaveOutcome> report() {
    auto written = std::exchange(unreported, std::nullopt);
    return written ? std::optional(said(std::move(*written))) : std::nullopt;
  }

  SaveOutcome said(Written written) {
    // A superseded worker must end, since its training is not the job's any more. Any other failure
    // costs this snapshot only.
    if (written.superseded) {
      // Two jobs at one path would else take it from each other at each restart.
      throw DoNotRetry(written.line);
    }
    if (!written.line.empty()) {
      options.say(written.line);
    }
    return std::move(written.outcome);
  }

  /// On any thread, but one at a time. Throws nothing: the training thread is not here to see it.
  Written write(std::uint64_t number, SaveOutcome outcome, const std::string& header,
                const HostTensors& parts) {
    const auto failure = [&](const std::string& why, const char* then) {
      outcome.result = SaveResult::failed;
      return Written{outcome, why + "; snapshot " + snapshot_name(number) + " was not saved" + then,
                     directory.superseded()};
    };
    constexpr char kGoesOn[] = ", training goes on";
    try {
      // A program that saves without load() has agreed on nothing: it follows the newest attempt of
      // its own disk.
      if (attempt == 0) {
        attempt = after(highest_attempt({directory.look()}));
      }
      outcome.state.attempt = static_cast<std::int64_t>(attempt);
      const auto written =
          directory.write(number, attempt, encode_state(outcome.state), header, parts);
      if (!written) {
        return failure(written.error().sentence(), directory.superseded() ? "" : kGoesOn);
      }
      const auto pruned = directory.prune();
      const std::string trouble =
          pruned ? "" : pruned.error().sentence() + "; old snapshots take up space";
      const bool is_new = std::exchange(unpruned, trouble) != trouble;
      return {std::move(outcome), is_new ? trouble : "", false};
    } catch (const std::exception& problem) {
      return failure(problem.what(), kGoesOn);
    }
  }

  const Context* context;
  SnapshotOptions options;
  SnapshotDirectory directory;
  bool shared = false;
  std::uint64_t attempt = 0;  // as SnapshotDirectory counts them; 0: not agreed on yet
  std::uint64_t next_number = 1;
  HostCopy copy;                      // what the thread writes
  std::future<Written> pending;       // the save that the thread does
  std::optional<Written> unreported;  // of the last one that ended
  std::string unpruned;               // why old ones stay, as it was said
  bool said_slow = false;
};

Snapshot::Snapshot(const Context& context, SnapshotOptions options) {
  if (options.keep < 1) {
    throw InvalidArgument(fmt::format("snapshot: keep is {}, at least 1 is needed", options.keep));
  }
  if (options.path.empty()) {
    throw InvalidArgument("snapshot: the path is empty");
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
  require_storable(tensors);
  impl_->settle();
  const InPhase loading(impl_->context->progress(), Phase::loading);
  impl_->attempt = impl_->next_attempt();
  // Claimed before the look: no earlier attempt commits after it, so what is found is all there is
  // (docs/snapshot.md).
  const auto mine = impl_->claim_and_scan();
  const auto reports = impl_->exchange(mine);
  const auto choice = choose(reports);
  Impl::refuse(choice);
  // Each complaint says what happens instead: a person needs one line.
  const auto instead = choice.chosen
                           ? "; snapshot " + snapshot_name(choice.chosen->number) + " is used"
                           : std::string("; there is no other, training starts afresh");
  for (const auto& complaint : complaints_to_say(reports, impl_->context->rank())) {
    impl_->options.say(complaint + instead);
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
    throw DoNotRetry(where + ": " + same.error().sentence());
  }
  // check_model has found each place among the tensors, with the same type and shape.
  std::unordered_map<std::string_view, const TensorPlace*> place_of;
  for (const auto& place : *places) {
    place_of[place.name] = &place;
  }
  for (const auto& [name, tensor] : tensors) {
    const TensorPlace& place = *place_of.at(name);
    fill(tensor, std::span(loaded.tensors).subspan(place.first_byte, place.byte_count));
  }
  return *state;
}

SaveResult Snapshot::save(SnapshotState state, std::span<const NamedTensor> tensors) {
  const auto number = impl_->next_save(state, tensors);
  if (!number) {
    return SaveResult::not_mine;
  }
  auto& progress = impl_->context->progress();
  const InPhase saving(progress, Phase::saving);
  impl_->settle();
  std::vector<Tensor> on_host;
  HostTensors parts;
  for (const auto& [name, tensor] : tensors) {
    // Copies of tensors on a GPU live until write() has read them.
    on_host.push_back(tensor.device().is_cpu() ? tensor : tensor.to(Device::cpu()));
    parts.emplace_back(static_cast<const std::byte*>(on_host.back().raw()), tensor.size_bytes());
  }
  return impl_
      ->said(impl_->write(*number, {SaveResult::saved, std::move(state), progress.now()},
                          encode_tensor_header(tensors), parts))
      .result;
}

std::optional<SaveOutcome> Snapshot::save_async(SnapshotState state,
                                                std::span<const NamedTensor> tensors) {
  const auto number = impl_->next_save(state, tensors);
  if (!number) {
    return std::nullopt;
  }
  auto& progress = impl_->context->progress();
  const InPhase saving(progress, Phase::saving);
  if (impl_->writing() && !std::exchange(impl_->said_slow, true)) {
    impl_->options.say(path().string() +
                       ": the snapshot before is still being written, training waits for it; save "
                       "less often, or to a faster disk");
  }
  impl_->settle();
  // A superseded worker ends here, before it begins another save.
  auto before = impl_->report();
  impl_->copy.take(tensors);
  SaveOutcome outcome{SaveResult::saved, std::move(state), progress.now()};
  impl_->pending = std::async(
      std::launch::async, [impl = impl_.get(), number = *number, outcome = std::move(outcome)] {
        return impl->write(number, outcome, impl->copy.header(), {impl->copy.bytes()});
      });
  return before;
}

std::optional<SaveOutcome> Snapshot::poll() {
  return impl_->writing() ? std::nullopt : wait();
}

std::optional<SaveOutcome> Snapshot::wait() {
  if (impl_->writing()) {
    const InPhase saving(impl_->context->progress(), Phase::saving);
    impl_->settle();
  }
  impl_->settle();
  return impl_->report();
}

const std::filesystem::path& Snapshot::path() const {
  return impl_->options.path;
}
std::string Snapshot::refusal() const {
  const auto closed = impl_->writes() ? impl_->directory.closed() : std::nullopt;
  return closed ? closed->sentence() : "";
}
bool Snapshot::shared() const {
  return impl_->shared;
}
bool Snapshot::writes() const {
  return impl_->writes();
}

}  // namespace ddp
