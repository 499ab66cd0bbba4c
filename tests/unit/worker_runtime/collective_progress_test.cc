#include "worker_runtime/collectives/collective_progress.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>

#include "worker_runtime/collectives/single_process_group.h"
#include "worker_runtime/failure/stack_on_demand.h"
#include "worker_runtime/training/progress_impl.h"

using namespace ddp;
using ddprun::ProgressChannel;
using ddprun::ProgressPage;

namespace {

Operation all_reduce(std::uint64_t sequence) {
  Operation operation;
  operation.kind = Operation::Kind::all_reduce;
  operation.output = Tensor::zeros({1024});
  operation.sequence = sequence;
  return operation;
}

}  // namespace

TEST_CASE("A collective is told when it is called, begun and done") {
  auto channel = ProgressChannel::create();
  REQUIRE(channel.has_value());
  const ProgressPage& page = channel->page();
  const auto& counters = page.collectives[1];
  const CollectiveProgress marks(channel->page(), CollectiveProgress::Group::gpu);
  const std::int64_t before = monotonic_ns();
  marks.entered(all_reduce(7));
  marks.entered(all_reduce(8));
  CHECK(counters.entered == 8);
  CHECK(page.changed_ns >= before);
  marks.begun(all_reduce(7));
  CHECK(counters.waiting == 7);
  CHECK(counters.finished == 0);
  CHECK((counters.what & 0xffff) == 4096);
  CHECK(counters.what >> 56 == static_cast<std::uint64_t>(ddprun::CollectiveKind::all_reduce));
  marks.finished(all_reduce(7));
  CHECK(counters.finished == 7);
  marks.finished(all_reduce(6));  // of a handle that is waited for late
  CHECK(counters.finished == 7);
}

TEST_CASE("A message is a sign of life, and no collective") {
  auto channel = ProgressChannel::create();
  REQUIRE(channel.has_value());
  const CollectiveProgress marks(channel->page(), CollectiveProgress::Group::host);
  Operation message = all_reduce(3);
  message.kind = Operation::Kind::send;
  marks.begun(message);
  marks.finished(message);
  CHECK(channel->page().collectives[0].waiting == 0);
  CHECK(channel->page().collectives[0].finished == 0);
  CHECK(channel->page().changed_ns != 0);
}

TEST_CASE("A group counts the collectives that it is asked for") {
  auto channel = ProgressChannel::create();
  REQUIRE(channel.has_value());
  const auto group = make_alone_process_group();
  tell_collectives(*group, CollectiveProgress(channel->page(), CollectiveProgress::Group::host));
  group->barrier();
  group->all_reduce(Tensor::zeros({1}));
  CHECK(channel->page().collectives[0].entered == 2);
}

TEST_CASE("Progress tells phases and signs of life") {
  auto channel = ProgressChannel::create();
  REQUIRE(channel.has_value());
  Progress progress = Progress::attach(channel->path().c_str());
  CHECK(progress.phase() == Phase::starting);
  progress.enter(Phase::evaluating);
  CHECK(progress.phase() == Phase::evaluating);
  const std::int64_t entered = channel->page().changed_ns;
  CHECK(entered != 0);
  progress.alive();
  CHECK(channel->page().changed_ns >= entered);
  progress.step();
  CHECK(progress.phase() == Phase::training);
  Progress none = Progress::attach(nullptr);
  none.alive();
  none.enter(Phase::ended);
  CHECK(none.phase() == Phase::starting);
}

TEST_CASE("A thread that gets the signal of the page writes its stack and goes on") {
  auto agent = ProgressChannel::create();
  REQUIRE(agent.has_value());
  auto worker = ProgressChannel::attach(agent->path());
  REQUIRE(worker.has_value());
  const ProgressPage& page = agent->page();
  {
    const StackOnDemand stacks(*worker);
    REQUIRE(page.stack_signal != 0);
    { const StackOnDemand second(*worker); }  // one at a time: this one does nothing
    REQUIRE(::raise(static_cast<int>(page.stack_signal.load())) == 0);
    REQUIRE(page.stacks_taken == 1);
    REQUIRE(::raise(static_cast<int>(page.stack_signal.load())) == 0);
    CHECK(page.stacks_taken == 2);
    const std::string text(agent->stacks().data(), page.stack_bytes.load());
    const std::string title = "thread " + std::to_string(::gettid()) + " (";
    CHECK(text.starts_with(title));
    CHECK(text.find(title, 1) != std::string::npos);
    CHECK(text.find("libc.so.6") != std::string::npos);
  }
  CHECK(page.stack_signal == 0);
  // One that is on its way when the worker has just let go of it does no harm.
  CHECK(::raise(SIGRTMIN + 9) == 0);
}
