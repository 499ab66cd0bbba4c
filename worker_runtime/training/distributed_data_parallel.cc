#include "ddp/distributed_data_parallel.h"

#include <fmt/core.h>

#include <array>
#include <iterator>
#include <sstream>
#include <utility>

#include "ddp/error.h"
#include "worker_runtime/training/bucket_plan.h"
#include "worker_runtime/training/gradient_arithmetic.h"

namespace ddp {
namespace {

/// What must agree on every rank, as one line per tensor.
std::string describe(const std::vector<Parameter>& parameters, const std::vector<Tensor>& buffers,
                     const DataParallelOptions& options) {
  std::string text =
      fmt::format("buckets of {} and {} bytes{}\n", options.first_bucket_bytes,
                  options.bucket_bytes, options.compression == Compression::bf16 ? " as bf16" : "");
  for (const Parameter& parameter : parameters) {
    text += "parameter \"" + parameter.name + "\" " +
            std::string(name_of(parameter.value.dtype())) + to_text(parameter.value.shape()) + "\n";
  }
  for (const Tensor& buffer : buffers) {
    text += "buffer " + std::string(name_of(buffer.dtype())) + to_text(buffer.shape()) + "\n";
  }
  return text;
}

/// The first line in which two descriptions differ.
std::pair<std::string, std::string> first_difference(const std::string& mine,
                                                     const std::string& other) {
  std::size_t begin = 0;
  while (begin < mine.size() && begin < other.size()) {
    const std::size_t my_end = mine.find('\n', begin);
    const std::size_t other_end = other.find('\n', begin);
    const std::string my_line = mine.substr(begin, my_end - begin);
    const std::string other_line = other.substr(begin, other_end - begin);
    if (my_line != other_line) {
      return {my_line, other_line};
    }
    begin = my_end + 1;
  }
  const auto line = [begin](const std::string& text) {
    return begin < text.size() ? text.substr(begin, text.find('\n', begin) - begin)
                               : std::string("nothing more");
  };
  return {line(mine), line(other)};
}

/// f32 holds whole numbers up to here. Counts travel among the gradients, in their type: the sum of
/// all ranks' has to be exact. So each is split, as digits are.
constexpr std::int64_t kExactMax = std::int64_t{1} << 24;
/// The low digit: of 65,536 ranks its sum is exact.
constexpr std::int64_t kLowCount = 256;

/// How far a step has come.
struct Step {
  std::vector<bool> ready;            // parameter
  std::vector<std::size_t> missing;   // bucket -> parameters not yet ready
  std::vector<std::size_t> reported;  // parameters, in the order in which they became ready
  std::vector<Work> works;            // bucket -> its all-reduce
  Work extra_work;                    // of the extra elements, with Compression::bf16
  std::size_t launched = 0;           // buckets launched, always a prefix
};

}  // namespace

struct DistributedDataParallel::Impl {
  ProcessGroup& group;
  std::vector<Tensor> buffers;
  DataParallelOptions options;
  std::vector<std::size_t> order = {};  // in which gradients lie in the buckets
  std::vector<Bucket> plan = {};
  std::vector<Tensor> storage = {};         // one per bucket
  std::vector<Tensor> narrowed = {};        // one per bucket with Compression::bf16, else none
  std::vector<std::size_t> bucket_of = {};  // parameter -> bucket
  Step step = {};
  std::int64_t samples = 0;  // of this rank since the last synchronisation
  std::int64_t global_samples = 0;
  bool leave = false;           // this rank's wish, since the last synchronisation
  std::int64_t leave_asks = 0;  // ranks that wished so in the last finished step
  bool seated = false;          // gradients have been given their places
  bool in_step = false;
  int quiet_guards = 0;       // of no_sync(), that live
  bool accumulating = false;  // gradients of steps under no_sync() wait to be reduced

  [[nodiscard]] std::string mistake(const std::vector<Parameter>& parameters) const;
  /// Nothing is communicated.
  [[nodiscard]] bool local_only() const { return quiet_guards > 0; }
  void agree(const std::vector<Parameter>& parameters);
  void seat(std::vector<Parameter>& parameters);
  const Tensor& outgoing(std::size_t bucket);
  void launch_ready();
  void launch_last();
  void receive();
  Tensor extra_view() const {
    return storage.front().view(extra_offset(plan.front()),
                                {static_cast<std::int64_t>(kExtraElements)});
  }
  void fill_extra() const;
  void read_extra();
};

/// What is wrong with this rank's own parameters; empty: nothing.
std::string DistributedDataParallel::Impl::mistake(const std::vector<Parameter>& parameters) const {
  for (const Parameter& parameter : parameters) {
    const std::string place = "parameter \"" + parameter.name + "\" ";
    const DType dtype = parameter.value.dtype();
    if (!parameter.value.defined() || (dtype != DType::f32 && dtype != DType::f64)) {
      return place + "must be f32 or f64";
    }
    if (parameter.value.device() != parameters.front().value.device()) {
      return place + "is on " + to_text(parameter.value.device()) + ", the first one on " +
             to_text(parameters.front().value.device());
    }
    if (options.compression == Compression::bf16 && dtype != DType::f32) {
      return place + "is " + std::string(name_of(dtype)) +
             ": only gradients of f32 can travel as bf16";
    }
  }
  return {};
}

/// Ranks with different models would hang or, worse, train nonsense: found out before anything
/// else. Every rank compares all and throws alike: no rank waits for another in the next
/// collective.
void DistributedDataParallel::Impl::agree(const std::vector<Parameter>& parameters) {
  // No description begins with a line break.
  const std::string wrong = mistake(parameters);
  const std::vector<std::string> all =
      group.all_gather_bytes(wrong.empty() ? describe(parameters, buffers, options) : "\n" + wrong);
  std::string problem;
  for (std::size_t rank = 0; rank < all.size() && problem.empty(); ++rank) {
    if (all[rank].starts_with('\n')) {
      problem = fmt::format("rank {}: {}", rank, all[rank].substr(1));
    }
  }
  for (std::size_t rank = 0; rank < all.size() && problem.empty(); ++rank) {
    if (all[rank] != all[0]) {
      const auto [first, other] = first_difference(all[0], all[rank]);
      problem = fmt::format("the ranks have different models: rank 0 has {}, rank {} has {}", first,
                            rank, other);
    }
  }
  if (problem.empty()) {
    return;
  }
  // A rank that throws ends the group, so every rank comes to this point first.
  try {
    group.barrier();
  } catch (const OperationError&) {
    // Another rank has thrown already. The problem found here stands.
  }
  throw InvalidArgument(wrong.empty() ? problem : wrong);
}

/// Plans the buckets and puts each gradient into its place. Values that were there stay.
void DistributedDataParallel::Impl::seat(std::vector<Parameter>& parameters) {
  std::vector<GradientSize> sizes;
  for (const Parameter& parameter : parameters) {
    sizes.push_back({parameter.value.size(), parameter.value.dtype()});
  }
  plan = plan_buckets(sizes, order, options.first_bucket_bytes, options.bucket_bytes);
  const Device device = parameters.empty() ? Device::cpu() : parameters.front().value.device();
  bucket_of.resize(parameters.size());
  step.ready.resize(parameters.size());
  step.missing.assign(plan.size(), 0);
  step.works.assign(plan.size(), {});
  storage.clear();
  narrowed.clear();
  for (std::size_t b = 0; b < plan.size(); ++b) {
    storage.push_back(
        Tensor::zeros({static_cast<std::int64_t>(plan[b].size)}, plan[b].dtype, device));
    if (options.compression == Compression::bf16) {
      // Without the extra elements: a count has more digits than bf16.
      const std::size_t size = b == 0 ? extra_offset(plan[b]) : plan[b].size;
      narrowed.push_back(Tensor::zeros({static_cast<std::int64_t>(size)}, DType::bf16, device));
    }
    for (std::size_t k = 0; k < plan[b].parameters.size(); ++k) {
      Parameter& parameter = parameters[plan[b].parameters[k]];
      // Views into the bucket, as PyTorch's gradient_as_bucket_view: backward writes where the
      // all-reduce reads.
      const Tensor place = storage[b].view(plan[b].offsets[k], parameter.value.shape());
      if (seated) {
        place.copy_from(parameter.gradient);
      }
      parameter.gradient = place;
      bucket_of[plan[b].parameters[k]] = b;
    }
  }
  seated = true;
}

/// What is reduced for a bucket that is complete on this rank.
const Tensor& DistributedDataParallel::Impl::outgoing(std::size_t bucket) {
  if (narrowed.empty()) {
    return storage[bucket];
  }
  narrow(storage[bucket].view(0, narrowed[bucket].size()), narrowed[bucket]);
  return narrowed[bucket];
}

/// Launches every bucket that is complete and whose predecessors have left: the order of
/// all-reduces must be the same on every rank, whatever the order of gradients. The last bucket is
/// left to finish(), which has nothing to do meanwhile.
void DistributedDataParallel::Impl::launch_ready() {
  while (step.launched + 1 < plan.size() && step.missing[step.launched] == 0) {
    step.works[step.launched] = group.all_reduce_async(outgoing(step.launched));
    ++step.launched;
  }
}

void DistributedDataParallel::Impl::launch_last() {
  const std::size_t last = plan.size() - 1;
  const Tensor& tensor = outgoing(last);
  // On this thread where nothing is before it: two changes of thread cost more than a small bucket.
  // Else the buckets before it are divided meanwhile.
  if ((last == 0 || step.works[last - 1].done()) && step.extra_work.done()) {
    group.all_reduce(tensor);
  } else {
    step.works[last] = group.all_reduce_async(tensor);
  }
}

/// Waits for each bucket and turns its sums into means, while the next ones are reduced.
void DistributedDataParallel::Impl::receive() {
  step.extra_work.wait();
  step.extra_work = {};
  for (std::size_t b = 0; b < plan.size(); ++b) {
    step.works[b].wait();
    step.works[b] = {};
    if (!narrowed.empty()) {
      widen(narrowed[b], storage[b].view(0, narrowed[b].size()));
    }
    if (b == 0) {
      read_extra();
    }
    // By the samples of all ranks, not by the ranks: uneven batches give the true mean, too.
    divide(storage[b], static_cast<double>(global_samples));
  }
}

void DistributedDataParallel::Impl::fill_extra() const {
  const Tensor extra = extra_view();
  const auto put = [this, &extra]<class T>(T /*of this type*/) {
    const std::int64_t low = samples % kLowCount;
    const std::int64_t high = samples / kLowCount;
    const std::array<T, kExtraElements> values = {static_cast<T>(low), static_cast<T>(high),
                                                  leave ? T{1} : T{0}};
    extra.copy_from_host(values.data());
  };
  if (extra.dtype() == DType::f32) {
    put(0.0F);
  } else {
    put(0.0);
  }
}

void DistributedDataParallel::Impl::read_extra() {
  const Tensor extra = extra_view();
  const auto keep = [this](const auto& values) {
    global_samples =
        static_cast<std::int64_t>(values[0]) + kLowCount * static_cast<std::int64_t>(values[1]);
    leave_asks = static_cast<std::int64_t>(values[2]);
  };
  if (extra.dtype() == DType::f32) {
    keep(extra.to_vector<float>());
  } else {
    keep(extra.to_vector<double>());
  }
}

DistributedDataParallel::DistributedDataParallel(ProcessGroup& group,
                                                 std::vector<Parameter>& parameters,
                                                 std::vector<Tensor> buffers,
                                                 DataParallelOptions options)
    : impl_(std::make_unique<Impl>(
          Impl{.group = group, .buffers = std::move(buffers), .options = options})) {
  impl_->agree(parameters);
  // Rank 0's values win: the other ranks may have started from other seeds.
  std::vector<Work> works;
  for (const Parameter& parameter : parameters) {
    works.push_back(group.broadcast_async(parameter.value, 0));
  }
  for (Work& work : works) {
    work.wait();
  }
  synchronize_buffers();
  impl_->order = reverse_order(parameters.size());
  impl_->seat(parameters);
}

DistributedDataParallel::~DistributedDataParallel() = default;
DistributedDataParallel::DistributedDataParallel(DistributedDataParallel&&) noexcept = default;
DistributedDataParallel& DistributedDataParallel::operator=(DistributedDataParallel&&) noexcept =
    default;

void DistributedDataParallel::begin(std::int64_t sample_count, bool leave) {
  Impl& impl = *impl_;
  if (impl.in_step) {
    throw InvalidArgument("begin() was called again before finish()");
  }
  const std::int64_t before = impl.accumulating ? impl.samples : 0;
  const std::int64_t most = kExactMax / impl.group.size() * kLowCount;
  if (sample_count < 0 || sample_count > most - before) {
    throw InvalidArgument(fmt::format(
        "a rank cannot have {} samples{} between two updates: of {} ranks each has 0 to {}",
        sample_count, before > 0 ? fmt::format(" more than {}", before) : "", impl.group.size(),
        most));
  }
  // Under no_sync() gradients add up over several steps; the first step after it reduces their sum.
  if (!impl.accumulating) {
    for (const Tensor& bucket : impl.storage) {
      bucket.zero();
    }
    impl.samples = 0;
    impl.leave = false;
  }
  impl.samples += sample_count;
  // The wish of any step under no_sync() counts.
  impl.leave = impl.leave || leave;
  impl.in_step = true;
  impl.step.launched = 0;
  impl.step.ready.assign(impl.step.ready.size(), false);
  impl.step.reported.clear();
  for (std::size_t b = 0; b < impl.plan.size(); ++b) {
    impl.step.missing[b] = impl.plan[b].parameters.size();
  }
  if (!impl.local_only()) {
    impl.fill_extra();
    if (!impl.narrowed.empty()) {
      // By itself, since its digits must not be rounded; it is done long before it is needed.
      impl.step.extra_work = impl.group.all_reduce_async(impl.extra_view());
    }
  }
}

void DistributedDataParallel::gradient_ready(std::size_t index) {
  Impl& impl = *impl_;
  if (!impl.in_step || index >= impl.step.ready.size() || impl.step.ready[index]) {
    throw InvalidArgument(fmt::format(
        "gradient_ready({}): no step has begun, no such parameter, or told twice", index));
  }
  impl.step.ready[index] = true;
  impl.step.reported.push_back(index);
  --impl.step.missing[impl.bucket_of[index]];
  if (!impl.local_only()) {
    impl.launch_ready();
  }
}

void DistributedDataParallel::finish() {
  Impl& impl = *impl_;
  if (!impl.in_step) {
    throw InvalidArgument("finish() was called without begin()");
  }
  impl.in_step = false;
  impl.accumulating = impl.local_only();
  if (impl.local_only()) {
    return;
  }
  // A parameter that was not used counts as ready with zeros: all ranks must reduce the same
  // buckets.
  impl.step.missing.assign(impl.step.missing.size(), 0);
  impl.launch_ready();
  impl.launch_last();
  impl.receive();
}

bool DistributedDataParallel::rebuild_buckets(std::vector<Parameter>& parameters) {
  Impl& impl = *impl_;
  if (impl.in_step || parameters.size() != impl.step.ready.size()) {
    throw InvalidArgument(
        "rebuild_buckets() needs the parameters of the constructor, between two steps");
  }
  // Rank 0's: another order on each rank would reduce different gradients with each other.
  std::string bytes;
  for (const std::size_t i : order_of_step(impl.step.reported, parameters.size())) {
    bytes += std::to_string(i) + " ";
  }
  std::istringstream agreed(impl.group.broadcast_bytes(bytes, 0));
  std::vector<std::size_t> order(std::istream_iterator<std::size_t>(agreed), {});
  if (order == impl.order) {
    return false;
  }
  impl.order = std::move(order);
  impl.seat(parameters);
  return true;
}

std::int64_t DistributedDataParallel::global_sample_count() const {
  return impl_->global_samples;
}

bool DistributedDataParallel::all_leave() const {
  // Every rank has the same sum, so all leave after the same step.
  return impl_->leave_asks > 0;
}

DistributedDataParallel::NoSync::NoSync(int& living) : living_(&living) {
  ++*living_;
}
DistributedDataParallel::NoSync::NoSync(NoSync&& other) noexcept
    : living_(std::exchange(other.living_, nullptr)) {}
DistributedDataParallel::NoSync::~NoSync() {
  if (living_ != nullptr) {
    --*living_;
  }
}

DistributedDataParallel::NoSync DistributedDataParallel::no_sync() {
  if (impl_->in_step) {
    throw InvalidArgument("no_sync() must be entered between steps, not within one");
  }
  return NoSync(impl_->quiet_guards);
}

void DistributedDataParallel::synchronize_buffers() {
  for (const Tensor& buffer : impl_->buffers) {
    impl_->group.broadcast(buffer, 0);
  }
}

}  // namespace ddp
