#include "trainer/training_snapshot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "trainer/finite.h"

namespace ddp {
namespace {

/// "step 40"; a training that counts no steps is known by its epochs.
std::string place_of(const SnapshotState& state) {
  const auto step = state.scalars.find("step");
  if (step != state.scalars.end()) {
    return "step " + std::to_string(static_cast<std::int64_t>(step->second));
  }
  return "epoch " + std::to_string(state.epochs_run);
}

/// The name of what is not finite; empty when all is.
std::string name_not_finite(const SnapshotState& state, std::span<const NamedTensor> tensors) {
  for (const auto& [name, value] : state.scalars) {
    if (!std::isfinite(value)) {
      return name;
    }
  }
  const auto* tensor = first_not_finite(tensors);
  return tensor != nullptr ? tensor->name : "";
}

std::optional<SnapshotState> loaded(Snapshot& snapshot, std::string_view model,
                                    std::span<const NamedTensor> tensors) {
  try {
    return snapshot.load(model, tensors);
  } catch (const OperationError&) {
    throw;
  } catch (const DoNotRetry&) {
    throw;
  } catch (const Error& problem) {
    throw StorageError(problem.what());
  }
}

}  // namespace

TrainingSnapshot::TrainingSnapshot(const Context& context, SnapshotOptions options)
    : context_(&context), snapshot_(context, std::move(options)) {}

/// Earlier builds saved such snapshots, and so may another program that writes the format.
std::optional<SnapshotState> TrainingSnapshot::load(std::string_view model,
                                                    std::span<const NamedTensor> tensors) {
  auto state = loaded(snapshot_, model, tensors);
  if (!state) {
    return state;
  }
  // Every rank has the same bytes, so all of them throw.
  if (const auto name = name_not_finite(*state, tensors); !name.empty()) {
    throw DoNotRetry(snapshot_.path().string() + ": the newest snapshot, of " + place_of(*state) +
                     ", holds numbers that are not finite ('" + name +
                     "'); remove its folder to go on from the one before, and choose a smaller "
                     "--lr");
  }
  newest_ = place_of(*state);
  return state;
}

/// Found too late after weeks of training, each save of which has failed.
void TrainingSnapshot::require_place() {
  constexpr char kFits[] = "fits";
  const auto problem = snapshot_.refusal();
  const auto mine = writes() && problem.empty() ? kFits : problem;
  const auto found = context_->group().all_gather_bytes(mine);
  // Where each node has a disk of its own, one of them is enough to go on from.
  if (std::find(found.begin(), found.end(), kFits) != found.end()) {
    return;
  }
  const auto first = std::find_if(found.begin(), found.end(),
                                  [](const std::string& text) { return !text.empty(); });
  throw DoNotRetry("no snapshot can be saved: " + *first);
}

/// Ranks hold the same weights, but a rank with a bad memory does not, and a rank may hold a part
/// of the optimizer's state alone: so each looks, and one is enough.
void TrainingSnapshot::require_finite(const SnapshotState& state,
                                      std::span<const NamedTensor> tensors) {
  for (const auto& name : context_->group().all_gather_bytes(name_not_finite(state, tensors))) {
    if (!name.empty()) {
      end_not_finite("'" + name + "'", place_of(state));
    }
  }
}

/// Looked at before the write and not after it: old snapshots are pruned in the same call, and the
/// last good one must not go for one that is spoilt.
SaveResult TrainingSnapshot::save(SnapshotState state, std::span<const NamedTensor> tensors) {
  require_finite(state, tensors);
  auto place = place_of(state);
  const auto result = snapshot_.save(std::move(state), tensors);
  if (result == SaveResult::saved) {
    newest_ = std::move(place);
  }
  failed_ = result == SaveResult::failed;
  return result;
}

std::optional<SaveOutcome> TrainingSnapshot::save_async(SnapshotState state,
                                                        std::span<const NamedTensor> tensors) {
  require_finite(state, tensors);
  return noted(snapshot_.save_async(std::move(state), tensors));
}

std::optional<SaveOutcome> TrainingSnapshot::poll() {
  return noted(snapshot_.poll());
}

std::optional<SaveOutcome> TrainingSnapshot::wait() {
  return noted(snapshot_.wait());
}

/// A failure is forgotten when a later save succeeds: then nothing is lost any more.
std::optional<SaveOutcome> TrainingSnapshot::noted(std::optional<SaveOutcome> outcome) {
  if (outcome) {
    failed_ = outcome->result == SaveResult::failed;
    newest_ = failed_ ? newest_ : place_of(outcome->state);
  }
  return outcome;
}

void TrainingSnapshot::require_saved() {
  if (const auto unsaved = unsaved_text(); !unsaved.empty()) {
    throw StorageError(unsaved + "; make room there, and give the same command again");
  }
}

int TrainingSnapshot::leave(Preemption& preemption) {
  const auto unsaved = unsaved_text();
  const int status = preemption.leave();
  if (context_->rank() != 0) {
    return status;
  }
  if (!unsaved.empty()) {
    std::fprintf(stderr, "%s; the steps since then will be done again\n", unsaved.c_str());
  } else if (status != 0) {
    // Under ddprun its summary says so.
    std::printf("Left in order at %s: the same command goes on from there\n",
                newest_.value_or("the start").c_str());
  }
  return status;
}

std::string TrainingSnapshot::unsaved_text() {
  wait();
  // Where each node has a disk of its own, one that is full is enough: the next attempt may have
  // to begin from it.
  const auto failures = context_->group().all_gather_bytes(failed_ ? "failed" : "");
  const auto failed = std::find(failures.begin(), failures.end(), "failed");
  if (failed == failures.end()) {
    return "";
  }
  return fmt::format("{}: the last snapshot could not be saved (rank {}); {}",
                     snapshot_.path().string(), failed - failures.begin(), newest_text());
}

void TrainingSnapshot::end_not_finite(const std::string& what, const std::string& place) {
  wait();  // so that what follows is true
  const auto newest = newest_text();
  throw DoNotRetry(what + " is no longer finite in " + place + "; choose a smaller --lr; " +
                   newest);
}

std::string TrainingSnapshot::newest_text() {
  const auto path = snapshot_.path().string();
  // Rank 0 writes wherever ranks do (docs/snapshot.md); the others know only what they resumed.
  const auto newest = context_->group().broadcast_bytes(newest_.value_or(""), 0);
  return newest.empty() ? "there is no snapshot in " + path
                        : "the newest snapshot in " + path + " is of " + newest;
}

}  // namespace ddp
