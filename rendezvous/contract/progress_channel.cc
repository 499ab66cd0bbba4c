#include "rendezvous/contract/progress_channel.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace ddprun {
namespace {

constexpr std::size_t kPageSize = 4096;

ProgressPage* map(int fd) {
  void* memory = ::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<ProgressPage*>(memory);
}

}  // namespace

std::optional<NewestSave> newest_save(const ProgressPage& page) {
  const std::uint64_t version = page.save_version.load();
  const NewestSave save{page.saved_plus_1.load(), page.saved_ns.load(), page.saved_steps.load()};
  if (version == 0 || version % 2 != 0 || page.save_version.load() != version) {
    return std::nullopt;
  }
  return save;
}

void ProgressChannel::Unmap::operator()(ProgressPage* page) const {
  ::munmap(page, kPageSize);
}

Result<ProgressChannel> ProgressChannel::create() {
  Fd fd(::memfd_create("ddprun-progress", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), kPageSize) != 0) {
    return errno_error(errno, "cannot make the shared memory of a progress channel");
  }
  ProgressPage* page = map(fd.get());
  if (page == nullptr) {
    return errno_error(errno, "cannot map a progress channel");
  }
  return ProgressChannel(std::move(fd), page);
}

Result<ProgressChannel> ProgressChannel::attach(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) {
    return errno_error(errno, "cannot open the progress channel", path);
  }
  if (const off_t size = ::lseek(fd.get(), 0, SEEK_END); size < static_cast<off_t>(kPageSize)) {
    return Error{"this is no progress channel (too small)", path, {}};
  }
  ProgressPage* page = map(fd.get());
  if (page == nullptr) {
    return errno_error(errno, "cannot map the progress channel", path);
  }
  page->magic.store(ProgressPage::kMagic);
  // The mapping stays; the worker keeps no descriptor that its children could inherit.
  return ProgressChannel(Fd(), page);
}

std::string ProgressChannel::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_.get());
}

}  // namespace ddprun
