#include "rendezvous/contract/progress_channel.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace ddprun {
namespace {

constexpr std::size_t kChannelBytes = ProgressChannel::kPageBytes + ProgressChannel::kStackBytesMax;

/// Shared, or the writes of the worker would stay its own. MAP_SHARED of a memfd outlives both
/// descriptors: the agent still reads what a dead worker wrote.
ProgressPage* map(int fd, std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<ProgressPage*>(memory);
}

}  // namespace

/// A sequence lock, read once: an odd version means that the three fields are being written, a
/// changed one that they were. The agent does not spin, for a worker may have died in the middle.
/// It reads again later.
std::optional<NewestSave> newest_save(const ProgressPage& page) {
  const std::uint64_t version = page.save_version.load();
  const NewestSave save{page.saved_plus_1.load(), page.saved_ns.load(), page.saved_steps.load()};
  if (version == 0 || version % 2 != 0 || page.save_version.load() != version) {
    return std::nullopt;
  }
  return save;
}

std::string_view to_text(WorkPhase phase) {
  switch (phase) {
    case WorkPhase::starting:
      return "starting";
    case WorkPhase::training:
      return "training";
    case WorkPhase::saving:
      return "saving a snapshot";
    case WorkPhase::loading:
      return "loading a snapshot";
    case WorkPhase::evaluating:
      return "evaluating";
    case WorkPhase::ended:
      return "at its end";
  }
  return "at work";
}

std::string_view to_text(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::none:
      break;
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::barrier:
      return "barrier";
  }
  return "a collective";
}

void ProgressChannel::Unmap::operator()(ProgressPage* page) const {
  ::munmap(page, bytes);
}

std::span<char> ProgressChannel::stacks() const {
  const std::size_t bytes = page_.get_deleter().bytes;
  return {reinterpret_cast<char*>(page_.get()) + std::min(bytes, kPageBytes),
          bytes - std::min(bytes, kPageBytes)};
}

/// A memfd, not a file: nothing is left on a disk, whatever dies. MFD_CLOEXEC keeps it from the
/// workers; each opens just its own, by the path.
Result<ProgressChannel> ProgressChannel::create() {
  Fd fd(::memfd_create("ddprun-progress", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), kChannelBytes) != 0) {
    const int why = errno;
    return errno_error(why, "cannot make the shared memory of a progress channel", {},
                       why == EFBIG ? "raise ulimit -f" : "");
  }
  ProgressPage* page = map(fd.get(), kChannelBytes);
  if (page == nullptr) {
    return errno_error(errno, "cannot map a progress channel");
  }
  return ProgressChannel(std::move(fd), page, kChannelBytes);
}

/// The path goes through the agent's /proc entry: it works only while the agent lives, and for its
/// own user (proc(5)). The magic comes last: a page that has it is one that a worker writes.
Result<ProgressChannel> ProgressChannel::attach(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) {
    return errno_error(errno, "cannot open the progress channel", path);
  }
  const off_t size = ::lseek(fd.get(), 0, SEEK_END);
  if (size < static_cast<off_t>(kPageBytes)) {
    return Error{"this is no progress channel (too small)", path, {}};
  }
  // An older agent made the one page and nothing behind it.
  const std::size_t bytes = std::min(static_cast<std::size_t>(size), kChannelBytes);
  ProgressPage* page = map(fd.get(), bytes);
  if (page == nullptr) {
    return errno_error(errno, "cannot map the progress channel", path);
  }
  page->magic.store(ProgressPage::kMagic);
  // The mapping stays; the worker keeps no descriptor that its children could inherit.
  return ProgressChannel(Fd(), page, bytes);
}

std::string ProgressChannel::path() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_.get());
}

}  // namespace ddprun
