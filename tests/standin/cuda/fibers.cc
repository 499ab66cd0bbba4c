#include "tests/standin/cuda/fibers.h"

#include <sys/mman.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// The address sanitizer is told of each change of stacks: it would take the one for the other.
#if defined(__SANITIZE_ADDRESS__)
#define DDP_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DDP_ADDRESS_SANITIZER
#endif
#endif
#ifdef DDP_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

namespace ddp_standin {
namespace {

/// Before the jump to another stack; `own` keeps what the sanitizer needs of the present one.
void leave_for([[maybe_unused]] void** own, [[maybe_unused]] const void* stack,
               [[maybe_unused]] std::size_t bytes) {
#ifdef DDP_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(own, stack, bytes);
#endif
}

/// After it; `from` and `bytes` receive the stack that was left.
void arrive([[maybe_unused]] void* own, [[maybe_unused]] const void** from,
            [[maybe_unused]] std::size_t* bytes) {
#ifdef DDP_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(own, from, bytes);
#endif
}

/// Pages are taken when they are touched. Sanitizers make frames several times as large.
constexpr std::size_t kStackBytes = std::size_t{1} << 18;

}  // namespace

/// ucontext makes a stack; from then on jumps go to and fro, since swapcontext() calls the kernel
/// each time.
struct Fibers::Fiber {
  Fiber() {
    stack = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) {
      std::perror("a stack for a CUDA thread");
      std::abort();
    }
  }
  ~Fiber() { ::munmap(stack, kStackBytes); }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void* stack = nullptr;
  bool begun = false;
  ucontext_t context{};
  std::jmp_buf stopped{};
  void* sanitizer = nullptr;
};

Fibers::Fibers(std::function<void(std::size_t number)> body) : body_(std::move(body)) {}
Fibers::~Fibers() = default;

Fibers::Fiber& Fibers::make(std::size_t number) {
  while (fibers_.size() <= number) {
    fibers_.push_back(std::make_unique<Fiber>());
  }
  return *fibers_[number];
}

void Fibers::resume(std::size_t number) {
  Fiber& fiber = make(number);
  current_ = number;
  if (_setjmp(resumer_) != 0) {
    arrive(sanitizer_, nullptr, nullptr);
    return;
  }
  leave_for(&sanitizer_, fiber.stack, kStackBytes);
  if (fiber.begun) {
    std::longjmp(fiber.stopped, 1);
  }
  fiber.begun = true;
  ::getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  // makecontext() passes ints: the pointer goes in two halves.
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Fibers::run), 2,
                static_cast<unsigned>(self >> 32U), static_cast<unsigned>(self));
  ::setcontext(&fiber.context);
}

void Fibers::run(unsigned high, unsigned low) {
  auto* self = std::bit_cast<Fibers*>(std::uintptr_t{high} << 32U | low);
  arrive(nullptr, &self->resumer_stack_, &self->resumer_bytes_);
  for (;;) {
    self->body_(self->current_);
    self->stop();
  }
}

void Fibers::stop() {
  Fiber& fiber = *fibers_[current_];
  if (_setjmp(fiber.stopped) == 0) {
    leave_for(&fiber.sanitizer, resumer_stack_, resumer_bytes_);
    std::longjmp(resumer_, 1);
  }
  // Whoever is here is the fiber that current_ names again.
  arrive(fibers_[current_]->sanitizer, &resumer_stack_, &resumer_bytes_);
}

}  // namespace ddp_standin
