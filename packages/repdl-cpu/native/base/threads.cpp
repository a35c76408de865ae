#include "base/threads.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/environment.hpp"
#include "base/openmp.hpp"
#include "base/routes.hpp"
#include "base/tuned.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace repdl::cpu {
namespace {

// Calls often follow one another within the time that Python takes between two layers, and to wake
// a thread takes longer than a small one lasts: a thread spins for so long before it parks, and
// lets others run meanwhile.
constexpr std::chrono::microseconds spin_time{200};

// Whether `ready` came true in time.
template <class Ready>
bool spin_until(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + spin_time;
  while (!ready()) {
    for (int i = 0; i < 16; ++i) {
#if defined(__SSE2__)
      _mm_pause();
#endif
    }
    std::this_thread::yield();
    if (std::chrono::steady_clock::now() > end) return ready();
  }
  return true;
}

using Body = std::function<void(std::int64_t, std::int64_t)>;

// body(begin, end) in IEEE's environment. The compiler must not know which function that is: it knows
// nothing of environments, and could move arithmetic that it sees to the other side of a switch.
void call(const Body& body, std::int64_t begin, std::int64_t end) {
  const IeeeScope ieee;
  const Body* hidden = &body;
  asm volatile("" : "+r"(hidden) : : "memory");
  (*hidden)(begin, end);
}

// While a thread is at work on a share, its calls of parallel_for are not split.
thread_local bool inside = false;

struct Inside {
  Inside() { inside = true; }
  ~Inside() { inside = false; }
};

struct Job {
  const Body* body;
  std::int64_t n;
  std::int64_t shares;
  std::atomic<std::int64_t> next{0};
  std::atomic<int> helpers{0};  // pool threads at work on it
  std::mutex throwing;
  std::exception_ptr error;
};

// Takes shares until there are none.
void work(Job& job) {
  const Inside marked;
  for (;;) {
    const std::int64_t share = job.next.fetch_add(1);
    if (share >= job.shares) return;
    try {
      call(*job.body, job.n * share / job.shares, job.n * (share + 1) / job.shares);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(job.throwing);
      if (!job.error) job.error = std::current_exception();
    }
  }
}

class Pool {
 public:
  // Runs the job's shares on `workers` pool threads, or as many as can be started, and the calling one.
  void run(Job& job, int workers) {
    std::unique_lock<std::mutex> lock(mutex_);
    start(workers);
    jobs_.push_back(&job);
    ++epoch_;
    wake_.notify_all();
    lock.unlock();
    work(job);
    lock.lock();
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
    lock.unlock();
    // Every share was taken, and nobody else will look at the job.
    const auto finished = [&] { return job.helpers.load() == 0; };
    if (spin_until(finished)) return;
    lock.lock();
    finished_.wait(lock, finished);
  }

 private:
  // Without memory for a stack, or where the system allows no more threads, those that there are
  // take all shares; the next call tries again.
  void start(int workers) {
    try {
      for (; started_ < workers; ++started_) std::thread([this] { loop(); }).detach();
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {
    }
  }

  void loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    std::uint64_t seen = 0;
    const auto called = [&] { return epoch_.load() != seen; };
    for (;;) {
      lock.unlock();
      spin_until(called);
      lock.lock();
      wake_.wait(lock, called);
      seen = epoch_.load();
      while (Job* job = unfinished()) {
        ++job->helpers;
        lock.unlock();
        work(*job);
        --job->helpers;  // the last use of the job
        lock.lock();
        finished_.notify_all();
      }
    }
  }

  Job* unfinished() const {
    for (Job* job : jobs_)
      if (job->next.load() < job->shares) return job;
    return nullptr;
  }

  std::mutex mutex_;
  std::condition_variable wake_, finished_;
  int started_ = 0;
  std::vector<Job*> jobs_;
  std::atomic<std::uint64_t> epoch_{0};
};

// Never destroyed: its threads end with the process. A forked child has none of them and starts a
// pool of its own. No lock guards the pointer: a thread that the child lacks could have held it.
std::atomic<Pool*> pool{nullptr};

// Nor has the child the threads of libgomp's teams, for which a call would wait for ever.
std::atomic<bool> forked{false};

[[maybe_unused]] const int at_fork = pthread_atfork(nullptr, nullptr, [] {
  pool.store(nullptr);
  forked.store(true);
});

Pool& the_pool() {
  Pool* known = pool.load();
  if (known) return *known;
  auto made = std::make_unique<Pool>();
  return pool.compare_exchange_strong(known, made.get()) ? *made.release() : *known;
}

// Whether torch's team can be used.
bool torchs_team() { return !forked.load() && openmp().parallel; }

// Whether the calling thread takes all shares.
bool on_this_thread(std::int64_t shares) {
  if (shares > 1 && inside)
    REPDL_ROUTE("threads: nested");
  else if (shares > 1 && torchs_team() && openmp().in_parallel())
    REPDL_ROUTE("threads: inside a team");
  else if (shares > 1)
    return false;
  REPDL_ROUTE("threads: one");
  return true;
}

// On torch's team, which is called as a whole, as torch does: libgomp ends and starts threads where one
// call takes fewer than another. False where it has not so many threads, or cannot be had.
bool on_torchs_team(Job& job, int threads) {
  if (!torchs_team()) return false;
  const int team = openmp().most_threads();
  if (threads > team || !run_on_team(team, [](void* data) { work(*static_cast<Job*>(data)); }, &job)) return false;
  REPDL_ROUTE("threads: torch's team");
  return true;
}

void on_our_pool(Job& job) {
  REPDL_ROUTE("threads: our pool");
  the_pool().run(job, static_cast<int>(job.shares) - 1);
}

}  // namespace

void parallel_for(std::int64_t n, std::int64_t grain, int threads,
                  const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (n <= 0) return;
  grain = tuned(grain, 1);
  const std::int64_t shares =
      std::min<std::int64_t>(threads, std::max<std::int64_t>(1, n / std::max<std::int64_t>(1, grain)));
  if (on_this_thread(shares)) {
    call(body, 0, n);
    return;
  }
  Job job;
  job.body = &body;
  job.n = n;
  job.shares = shares;
  if (!on_torchs_team(job, threads)) on_our_pool(job);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace repdl::cpu
