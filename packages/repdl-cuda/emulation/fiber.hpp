// A fiber: a function with a stack of its own that runs until it switches to another one.
#pragma once

#include <csetjmp>
#include <stdexcept>
#include <sys/mman.h>
#include <ucontext.h>

namespace repdl::emulation {

class Fiber {
 public:
  // The fiber that runs now: somewhere to come back to.
  Fiber() = default;

  // A new one, which starts in `entry` at the first switch and must not leave it.
  explicit Fiber(void (*entry)()) {
    // A page that cannot be written below the stack.
    stack_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack_ == MAP_FAILED) throw std::runtime_error("emulation: no memory for the stack of a thread");
    mprotect(stack_, 4096, PROT_NONE);
    getcontext(&start_);
    start_.uc_stack.ss_sp = stack_;
    start_.uc_stack.ss_size = size;
    start_.uc_link = nullptr;
    makecontext(&start_, entry, 0);
  }
  ~Fiber() {
    if (stack_) munmap(stack_, size);
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Goes on in `to`; returns when somebody switches back to this one, which is running.
  void switch_to(Fiber& to) {
    if (to.stack_ && !to.started_) {
      to.started_ = true;
      if (_setjmp(here_) == 0) setcontext(&to.start_);
    } else if (_setjmp(here_) == 0) {
      _longjmp(to.here_, 1);  // swapcontext would do, with two system calls
    }
  }

 private:
  static constexpr std::size_t size = 256 << 10;

  void* stack_ = nullptr;
  bool started_ = false;
  ucontext_t start_;
  std::jmp_buf here_;
};

}  // namespace repdl::emulation
