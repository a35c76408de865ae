// A fiber: a function with a stack of its own that runs until it switches to another one.
#pragma once

#include <csetjmp>
#include <stdexcept>
#include <sys/mman.h>
#include <ucontext.h>

#include "sanitizers.hpp"

namespace repdl::emulation {

class Fiber {
 public:
  // The fiber that runs now: somewhere to come back to.
  Fiber() = default;

  // A new one, which starts in `entry` at the first switch, calls arrive() and must not leave it.
  explicit Fiber(void (*entry)()) : stack_(new_stack()), sanitized_(stack_, size) {
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
    if (_setjmp(here_) == 0) {
      sanitized_.leave_for(to.sanitized_);
      if (to.stack_ && !to.started_) {
        to.started_ = true;
        setcontext(&to.start_);
      }
      _longjmp(to.here_, 1);  // swapcontext would do, with two system calls
    }
    arrive();
  }
  void arrive() { sanitized_.arrive(); }

  // As the functions of sanitizers.hpp, on behalf of a fiber that waits.
  void give(void* point) { sanitized_.give(point); }
  void take(void* point) { sanitized_.take(point); }

 private:
  static constexpr std::size_t size = 256 << 10;

  static void* new_stack() {
    void* stack = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) throw std::runtime_error("emulation: no memory for the stack of a thread");
    mprotect(stack, 4096, PROT_NONE);  // a page that cannot be written below the stack
    return stack;
  }

  void* stack_ = nullptr;
  SanitizedFiber sanitized_{nullptr, 0};
  bool started_ = false;
  ucontext_t start_;
  std::jmp_buf here_;
};

}  // namespace repdl::emulation
