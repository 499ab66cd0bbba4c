// Fibers: functions of one thread that stop and go on where they stopped, each on a stack of its
// own. The threads of a CUDA block run as fibers, so that they can wait for each other.
#pragma once

#include <ucontext.h>

#include <csetjmp>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace ddp_standin {

class Fibers {
 public:
  /// Each runs `body(number)` whenever it is resumed at its beginning.
  explicit Fibers(std::function<void(std::size_t number)> body);
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  /// Goes on with that fiber, which is made when it is new, until it stops or its body returns.
  void resume(std::size_t number);
  /// Called within the body: the caller of resume() goes on.
  void stop();

 private:
  struct Fiber;
  [[noreturn]] static void run(unsigned high, unsigned low);
  Fiber& make(std::size_t number);

  std::function<void(std::size_t)> body_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::size_t current_ = 0;
  std::jmp_buf resumer_{};
  // For the address sanitizer: the stack of resume()'s caller.
  void* sanitizer_ = nullptr;
  const void* resumer_stack_ = nullptr;
  std::size_t resumer_bytes_ = 0;
};

}  // namespace ddp_standin
