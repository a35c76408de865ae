// What the sanitizers of gcc and clang are told of fibers; nothing in other builds.
//
// AddressSanitizer learns of every change of stacks. To ThreadSanitizer each fiber is a
// thread that only barriers, warp operations and the ends of a block order before others: a
// missing barrier is a data race. runtime.cpp itself is compiled without -fsanitize=thread,
// with REPDL_THREAD_SANITIZER: what it does between two threads of a kernel is no race.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(REPDL_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace repdl::emulation {

// All that the running fiber did before it gives to `point` comes before what others do that take from it later.
#if defined(REPDL_THREAD_SANITIZER)
inline void give(void* point) { __tsan_release(point); }
inline void take(void* point) { __tsan_acquire(point); }
#else
inline void give(void*) {}
inline void take(void*) {}
#endif

// The sanitizer's side of a fiber. `stack` is null for the fiber of the host.
#if defined(REPDL_THREAD_SANITIZER)
class SanitizedFiber {
 public:
  SanitizedFiber(const void* stack, std::size_t) : made_(stack ? __tsan_create_fiber(0) : nullptr) {}
  ~SanitizedFiber() {
    if (made_) __tsan_destroy_fiber(made_);
  }
  SanitizedFiber(const SanitizedFiber&) = delete;
  SanitizedFiber& operator=(const SanitizedFiber&) = delete;

  void leave_for(SanitizedFiber& to) {
    if (!made_) host_ = __tsan_get_current_fiber();
    run(to.made_ ? to.made_ : to.host_);
  }
  void arrive() {}
  void give(void* point) { in_place(emulation::give, point); }
  void take(void* point) { in_place(emulation::take, point); }

 private:
  static void run(void* fiber) { __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync); }
  void in_place(void (*action)(void*), void* point) {
    void* now = __tsan_get_current_fiber();
    run(made_);
    action(point);
    run(now);
  }

  void* made_;
  void* host_ = nullptr;
};
#else
class SanitizedFiber {
 public:
  SanitizedFiber(const void* stack, std::size_t size) : stack_(stack), size_(size) {}
  void give(void*) {}
  void take(void*) {}
#if defined(__SANITIZE_ADDRESS__)
  void leave_for(SanitizedFiber& to) {
    to.from_ = this;
    __sanitizer_start_switch_fiber(&fake_, to.stack_, to.size_);
  }
  void arrive() {
    __sanitizer_finish_switch_fiber(fake_, &from_->stack_, &from_->size_);  // the host's are known only now
  }
#else
  void leave_for(SanitizedFiber&) {}
  void arrive() {}
#endif

 private:
  const void* stack_;
  std::size_t size_;
  [[maybe_unused]] void* fake_ = nullptr;
  [[maybe_unused]] SanitizedFiber* from_ = nullptr;
};
#endif

}  // namespace repdl::emulation
