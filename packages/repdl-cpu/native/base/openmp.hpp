// The OpenMP runtime that torch computes on. A process that has two teams of threads, torch's and one
// of ours, is slow: a team spins before it sleeps, in libgomp for 10 ms, and takes the processors from
// the other one. It is found at run time, in the process: nothing here links torch or a runtime.
#pragma once

#include <cstddef>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#if defined(__linux__)
#include <dlfcn.h>
#include <link.h>
#endif

namespace repdl::cpu {

// libgomp's entry points, which libomp and libiomp5 have too. All are null where torch has none of them.
struct OpenMP {
  // GOMP_parallel: calls function(data) on every thread of a team of so many, the calling one among them.
  void (*parallel)(void (*function)(void*), void* data, unsigned threads, unsigned flags) = nullptr;
  int (*in_parallel)() = nullptr;   // omp_in_parallel
  int (*most_threads)() = nullptr;  // at::get_num_threads, which tells the runtime too what was set
  std::string name;                 // the file that it is in
};

#if defined(__linux__)

// The loaded file whose functions, or those of a file that it needs, include torch's.
inline void* torch_library(const char* of_torch) {
  std::vector<std::string> files;
  const auto add = [](dl_phdr_info* info, std::size_t, void* data) {
    static_cast<std::vector<std::string>*>(data)->emplace_back(info->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(add, &files);
  for (const std::string& file : files) {
    void* library = file.empty() ? nullptr : dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (!library) continue;
    if (dlsym(library, of_torch)) return library;  // kept open, as long as the process
    dlclose(library);
  }
  return nullptr;
}

inline OpenMP find_openmp() {
  constexpr char most_threads[] = "_ZN2at15get_num_threadsEv";
  OpenMP found;
  void* torch = torch_library(most_threads);
  if (!torch) return found;
  // As the dynamic linker binds torch's calls: what everybody sees (LD_PRELOAD) comes first.
  const auto bind = [torch](auto& function, const char* name) {
    void* own = dlsym(torch, name);
    void* global = own ? dlsym(RTLD_DEFAULT, name) : nullptr;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(global ? global : own);
    return function != nullptr;
  };
  if (!bind(found.most_threads, most_threads) || !bind(found.in_parallel, "omp_in_parallel") ||
      !bind(found.parallel, "GOMP_parallel"))
    return {};
  Dl_info file{};
  dladdr(reinterpret_cast<void*>(found.parallel), &file);
  found.name = file.dli_fname ? file.dli_fname : "";
  found.name.erase(0, found.name.rfind('/') + 1);
  return found;
}

#else

// Nobody has tried it elsewhere.
inline OpenMP find_openmp() { return {}; }

#endif

// That of torch, if torch was loaded before the first call.
inline const OpenMP& openmp() {
  static const OpenMP found = find_openmp();
  return found;
}

// Whether so many more threads can be started: they are, all at once, and end.
inline bool can_start(int threads) {
  std::vector<std::thread> started;
  std::mutex gate;
  std::unique_lock<std::mutex> closed(gate);
  bool all = true;
  try {
    started.reserve(static_cast<std::size_t>(threads));
    for (int i = 0; i < threads; ++i) started.emplace_back([&gate] { const std::lock_guard<std::mutex> open(gate); });
  } catch (const std::system_error&) {
    all = false;
  } catch (const std::bad_alloc&) {
    all = false;
  }
  closed.unlock();
  for (std::thread& thread : started) thread.join();
  return all;
}

// Calls function(data) on `threads` threads of torch's team, or on fewer where the runtime is told so.
// False, and nothing was called, where that team cannot be had: libgomp ends the process where it can
// start no thread, so the first call on a thread that needs a larger team than before tries that here.
inline bool run_on_team(int threads, void (*function)(void*), void* data) {
  thread_local int team = 1;  // a runtime keeps a team for each thread that calls it
  if (threads > team && !can_start(threads - 1)) return false;
  team = threads;
  openmp().parallel(function, data, static_cast<unsigned>(threads), 0);
  return true;
}

}  // namespace repdl::cpu
