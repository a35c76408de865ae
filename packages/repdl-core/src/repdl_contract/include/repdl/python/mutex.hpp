// A lock for what several threads of Python change. Python's global lock guards that where there is one.
#pragma once

#include <mutex>

#include "repdl/python/ref.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// No reference is given back and nothing of Python is called while it is locked: both may run other threads.
class Mutex {
 public:
#if defined(Py_GIL_DISABLED)
  void lock() { PyMutex_Lock(&mutex_); }
  void unlock() { PyMutex_Unlock(&mutex_); }

 private:
  PyMutex mutex_{};  // zeros: Python allocates its objects so
#else
  void lock() {}
  void unlock() {}
#endif
};
using Locked = std::lock_guard<Mutex>;

}  // namespace repdl::python
#pragma GCC visibility pop
