// parallel_for and the environment, without Python: `pool CHECK...`, each of those in `checks`, on our
// pool; `pool --torch FILE CHECK...` on the team of what FILE needs, a library made of torch.cpp.
#include "base/threads.hpp"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/environment.hpp"

namespace {

using repdl::cpu::parallel_for;

int failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::printf("%s\n", what.c_str());
  ++failures;
}

// Where there is a team: calls of its runtime, which are nobody's here.
void (*on_every_thread)(void (*)(void*), void*) = nullptr;

// body() on every thread of the team, or on this one.
void everywhere(std::function<void()> body) {
  if (!on_every_thread) return body();
  on_every_thread([](void* given) { (*static_cast<std::function<void()>*>(given))(); }, &body);
}

std::uint32_t bits(float x) {
  std::uint32_t result;
  std::memcpy(&result, &x, sizeof result);
  return result;
}

// Results that every rounding mode but the nearest, and a flush to zero, changes. Arguments come by
// value, so that nothing but the environment keeps the compiler from computing them elsewhere.
void compute(float one, float three, float tiny, int threads, std::vector<float>& out) {
  parallel_for(static_cast<std::int64_t>(out.size()) / 3, 1, threads, [=, &out](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      out[3 * i] = one / three;
      out[3 * i + 1] = -(one / (three * three * three));
      out[3 * i + 2] = tiny * (one / (three + one));
    }
  });
}

#if defined(__SSE2__)
using Word = unsigned;
constexpr Word flush_bits = 0x8040, sticky_bits = 0x3f;
Word word() { return _mm_getcsr(); }
void set_word(Word w) { _mm_setcsr(w); }
#elif defined(__aarch64__)
using Word = std::uint64_t;
constexpr Word flush_bits = Word{1} << 24, sticky_bits = 0;
Word word() {
  Word w;
  asm volatile("mrs %0, fpcr" : "=r"(w));
  return w;
}
void set_word(Word w) { asm volatile("msr fpcr, %0" : : "r"(w)); }
#else
using Word = unsigned;
constexpr Word flush_bits = 0, sticky_bits = 0;
Word word() { return 0; }
void set_word(Word) {}
#endif

void environment() {
  volatile float one = 1.0f, three = 3.0f, tiny = 0x1p-126f;
  for (const int threads : {1, 4})
    for (const int mode : {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO})
      for (const Word flush : {Word{0}, flush_bits}) {
        std::vector<float> out(3000);
        const auto set = [=] {
          std::fesetround(mode);
          set_word(word() | flush);
        };
        everywhere(set);
        set();  // libomp undoes what its regions do to the caller's environment
        const Word before = word();
        compute(one, three, tiny, threads, out);
        std::atomic<bool> kept{word() == before};
        everywhere([&] {  // flags that say what happened before differ between threads
          if (std::fegetround() != mode || ((word() ^ before) & ~sticky_bits) != 0) kept = false;
        });
        const auto reset = [] {
          set_word(word() & ~flush_bits);
          std::fesetround(FE_TONEAREST);
        };
        everywhere(reset);
        reset();
        const std::string where = ", mode " + std::to_string(mode) + ", " + std::to_string(threads) + " threads";
        expect(kept, "the caller's environment was not put back" + where);
        bool same = true;
        for (std::size_t i = 0; i < out.size(); i += 3)
          same = same && bits(out[i]) == 0x3eaaaaab && bits(out[i + 1]) == 0xbd17b426 && bits(out[i + 2]) == 0x00200000;
        expect(same, "the caller's environment changed results" + where);
      }
}

// Every index once.
bool covers(std::int64_t n, int threads) {
  std::vector<int> seen(static_cast<std::size_t>(n));
  parallel_for(n, 1, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
  });
  for (const int count : seen)
    if (count != 1) return false;
  return true;
}

void nested() {
  std::vector<std::vector<int>> seen(50, std::vector<int>(70));
  parallel_for(50, 1, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      parallel_for(70, 1, 4, [&](std::int64_t b, std::int64_t e) {
        for (std::int64_t j = b; j < e; ++j) ++seen[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
      });
  });
  for (const auto& row : seen)
    for (const int count : row) expect(count == 1, "a nested call missed or repeated an index");
}

// From each of the threads in turn, and from all at once; afterwards everything works.
void exceptions() {
  for (std::int64_t thrower = -1; thrower < 4; ++thrower)
    for (int repeat = 0; repeat < 50; ++repeat) {
      bool caught = false;
      try {
        parallel_for(4, 1, 4, [=](std::int64_t begin, std::int64_t) {
          if (thrower < 0 || begin == thrower) throw std::runtime_error("planted");
        });
      } catch (const std::runtime_error&) {
        caught = true;
      }
      expect(caught, "an exception was lost");
      expect(covers(1000, 4), "after an exception, indices are missed or repeated");
    }
}

void concurrent() {
  std::vector<std::thread> callers;
  std::vector<int> wrong(4);
  for (std::size_t t = 0; t < wrong.size(); ++t)
    callers.emplace_back([&, t] {
      for (int repeat = 0; repeat < 300; ++repeat) wrong[t] += !covers(100 + repeat, 3);
    });
  for (std::thread& caller : callers) caller.join();
  for (const int count : wrong) expect(count == 0, "concurrent callers disturb one another");
}

// Children of a process whose threads are anywhere in parallel_for, and of a thread that called it.
void forks() {
  parallel_for(2, 1, 2, [](std::int64_t, std::int64_t) {});
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int t = 0; t < 3; ++t)
    callers.emplace_back([&] {
      while (!stop) parallel_for(2, 1, 2, [](std::int64_t, std::int64_t) {});
    });
  int hung = 0;
  for (int repeat = 0; repeat < 200 && hung == 0; ++repeat) {
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGALRM, SIG_DFL);
      alarm(5);
      _exit(covers(100, 3) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    expect(!(WIFEXITED(status) && WEXITSTATUS(status) == 1), "a child computed something else");
    hung += WIFSIGNALED(status);
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  expect(hung == 0, "a child hung");
}

long tasks() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("Threads:", 0) == 0) return std::stol(line.substr(8));
  return -1;
}

// The threads that take `n` parts, one each, if in 10 seconds there are so many.
std::vector<std::thread::id> takers(int n) {
  std::vector<std::thread::id> result;
  std::mutex mutex;
  std::atomic<int> arrived{0};
  parallel_for(n, 1, n, [&](std::int64_t, std::int64_t) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      result.push_back(std::this_thread::get_id());
    }
    ++arrived;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (arrived < n && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  });
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// OMP_NUM_THREADS is 4: calls with up to 4 threads start 3 and no more, and those are torch's; with more,
// threads of ours; in a region of the runtime, none.
void team() {
  expect(takers(2).size() == 2, "two threads");
  expect(tasks() == 4, "the team is not of the runtime's size");
  std::vector<std::thread::id> torchs;
  std::mutex mutex;
  everywhere([&] {
    const std::lock_guard<std::mutex> lock(mutex);
    torchs.push_back(std::this_thread::get_id());
  });
  std::sort(torchs.begin(), torchs.end());
  expect(torchs.size() == 4 && takers(4) == torchs, "our parts do not run on torch's threads");
  expect(tasks() == 4, "threads of our own were started beside the runtime's");
  for (const int threads : {4, 9}) {
    std::atomic<int> strangers{0};
    everywhere([&] {
      const auto caller = std::this_thread::get_id();
      parallel_for(100, 1, threads, [&](std::int64_t, std::int64_t) {
        if (std::this_thread::get_id() != caller) ++strangers;
      });
    });
    expect(strangers == 0, "in a region of the runtime, other threads take parts");
  }
  expect(tasks() == 4, "in a region of the runtime, threads were started");
  expect(takers(9).size() == 9 && tasks() == 4 + 8, "nine threads");
}

// Where no thread can be started, those that there are compute; afterwards they are. In a process of its
// own: the C library keeps stacks of threads that have ended. OMP_NUM_THREADS is 8.
void limited(int first) {
  expect(covers(1000, first), "the first threads");
  const long before = tasks();
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit plain{};
  getrlimit(RLIMIT_AS, &plain);
  rlimit tight = plain;
  tight.rlim_cur = static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (1 << 20);
  expect(setrlimit(RLIMIT_AS, &tight) == 0, "setrlimit");
  bool works = true;
  try {
    for (int repeat = 0; repeat < 20; ++repeat) works = works && covers(1000, 8);
  } catch (const std::exception&) {
    works = false;
  }
  const long within = tasks();
  setrlimit(RLIMIT_AS, &plain);
  expect(works, "without memory for threads, a call fails");
  expect(within == before, "the limit did not keep threads from starting: nothing was tested");
  expect(covers(1000, 8) && tasks() == before + 8 - first, "later calls start no threads");
}

struct Check {
  const char* name;
  void (*run)();
};
constexpr Check checks[] = {{"environment", environment},
                            {"nested", nested},
                            {"exceptions", exceptions},
                            {"concurrent", concurrent},
                            {"forks", forks},
                            {"limited", [] { limited(1); }},
                            {"limited_later", [] { limited(2); }},
                            {"team", team}};

}  // namespace

int main(int count, char** arguments) {
  int first = 1;
  if (count > 2 && std::strcmp(arguments[1], "--torch") == 0) {
    void* torch = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
    on_every_thread = reinterpret_cast<decltype(on_every_thread)>(torch ? dlsym(torch, "on_every_thread") : nullptr);
    expect(on_every_thread, "torch was not loaded");
    if (!on_every_thread) return 1;
    reinterpret_cast<int (*)()>(dlsym(torch, "_ZN2at15get_num_threadsEv"))();  // the runtime begins
    first = 3;
  }
  for (int i = first; i < count; ++i) {
    bool known = false;
    for (const Check& check : checks)
      if (std::strcmp(arguments[i], check.name) == 0) known = true, check.run();
    expect(known, std::string("no check ") + arguments[i]);
  }
  std::printf("%d failures\n", failures);
  return failures != 0;
}
