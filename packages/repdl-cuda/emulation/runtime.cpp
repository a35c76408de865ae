// The emulated machine: blocks one after the other, the threads of a block as fibers.
#include <algorithm>
#include <cfenv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulation.hpp"
#include "fiber.hpp"

dim3 threadIdx, blockDim;
BlockNumbers blockIdx, gridDim;

namespace repdl::emulation {
namespace {

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes, zeros;
};

void make(const Copy& copy) {
  std::memcpy(copy.to, copy.from, copy.bytes - copy.zeros);
  std::memset(static_cast<char*>(copy.to) + copy.bytes - copy.zeros, 0, copy.zeros);
}

enum class State { ready, at_barrier, at_exchange, done };

struct Thread {
  std::unique_ptr<Fiber> fiber;
  dim3 index;
  State state;
  int line;                    // where it waits
  unsigned mask;               // of the lanes that it waits for
  std::uint64_t value;         // what it brings,
  std::uint64_t received[32];  // and gets
  std::vector<Copy> open;      // copies since the last commit
  std::vector<std::vector<Copy>> groups;
};

struct Shared {
  const void* key;
  std::unique_ptr<unsigned char[]> memory;
};

// All of one process; `lock` lets one host thread in.
struct Machine {
  std::mutex lock;
  std::vector<Thread> threads;  // their fibers stay from one block to the next
  Fiber scheduler;
  Thread* running = nullptr;
  const std::function<void()>* body = nullptr;
  std::vector<Shared> shared;
  std::size_t dynamic_bytes = 0;
  std::string error;
  bool shuffled = false;
  std::mt19937 random;
} machine;

// Every fiber: the kernel once, then wait for the next block.
void thread_main() {
  machine.running->fiber->arrive();
  for (;;) {
    (*machine.body)();
    Thread& self = *machine.running;
    self.state = State::done;
    self.fiber->switch_to(machine.scheduler);
  }
}

void wait(State state, int line) {
  Thread& self = *machine.running;
  self.state = state;
  self.line = line;
  self.fiber->switch_to(machine.scheduler);
}

std::string place(const Thread& thread) {
  const dim3 t = thread.index, b(blockIdx.x, blockIdx.y, blockIdx.z);
  const auto text = [](dim3 i) {
    return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " + std::to_string(i.z) + ")";
  };
  return "thread " + text(t) + " of block " + text(b);
}

// Lets go the lanes of a warp that have all reached the same exchange.
bool release_warp(std::size_t first, std::size_t count) {
  bool any = false;
  Thread* lane = &machine.threads[first];
  for (std::size_t i = 0; i < count; ++i) {
    if (lane[i].state != State::at_exchange) continue;
    const unsigned mask = lane[i].mask;
    bool complete = true;
    for (std::size_t j = 0; complete && j < 32; ++j)
      if (mask >> j & 1)
        complete =
            j < count && lane[j].state == State::at_exchange && lane[j].mask == mask && lane[j].line == lane[i].line;
    if (!complete) continue;
    for (std::size_t j = 0; j < count; ++j)
      if (mask >> j & 1) lane[j].fiber->give(lane);
    for (std::size_t j = 0; j < count; ++j) {
      if (!(mask >> j & 1)) continue;
      for (std::size_t k = 0; k < 32; ++k) lane[j].received[k] = k < count && (mask >> k & 1) ? lane[k].value : ~0ull;
      lane[j].state = State::ready;
      lane[j].fiber->take(lane);
    }
    any = true;
  }
  return any;
}

// Lets go the threads of a block that have all reached the same barrier.
bool release_block() {
  for (const Thread& t : machine.threads)
    if (t.state != State::at_barrier || t.line != machine.threads[0].line) return false;
  std::uint64_t any = 0;
  for (Thread& t : machine.threads) {
    any |= t.value;
    t.fiber->give(&machine);
  }
  for (Thread& t : machine.threads) {
    t.received[0] = any;
    t.state = State::ready;
    t.fiber->take(&machine);
  }
  return true;
}

[[noreturn]] void throw_stuck() {
  std::string text = "emulation: threads wait for others that do not come: ";
  bool first = true;
  for (const State state : {State::at_barrier, State::at_exchange, State::done}) {
    for (const Thread& t : machine.threads) {
      if (t.state != state) continue;
      text += (first ? "" : "; ") + place(t);
      text += state == State::done ? " has left the kernel"
                                   : (state == State::at_barrier ? " waits at __syncthreads in line "
                                                                 : " waits for the lanes of its mask in line ") +
                                         std::to_string(t.line);
      first = false;
      break;
    }
  }
  throw std::runtime_error(text);
}

// The host sees what the threads have done.
void end_block() {
  for (Thread& t : machine.threads)
    if (t.fiber) t.fiber->give(&machine.scheduler);
  take(&machine.scheduler);
}

// Lets the threads of a warp that are ready run until they wait. Returns whether any could, or is ready now.
bool run_warp(std::size_t first) {
  const std::size_t count = std::min<std::size_t>(32, machine.threads.size() - first);
  std::size_t lanes[32];
  for (std::size_t i = 0; i < count; ++i) lanes[i] = first + i;
  if (machine.shuffled) std::shuffle(lanes, lanes + count, machine.random);
  bool moved = false;
  for (std::size_t i = 0; i < count; ++i) {
    Thread& t = machine.threads[lanes[i]];
    if (t.state != State::ready) continue;
    machine.running = &t;
    threadIdx = t.index;
    machine.scheduler.switch_to(*t.fiber);
    if (!machine.error.empty()) {
      end_block();
      throw std::runtime_error(machine.error);
    }
    moved = true;
  }
  return release_warp(first, count) || moved;
}

// A warp goes on to the next barrier before the others do: what it must not overtake them with, it does.
void run_block(std::vector<std::size_t>& warps) {
  machine.shared.clear();
  give(&machine.body);
  for (Thread& t : machine.threads) {
    t.fiber->take(&machine.body);
    t.state = State::ready;
    t.open.clear();
    t.groups.clear();
  }
  for (;;) {
    if (machine.shuffled) std::shuffle(warps.begin(), warps.end(), machine.random);
    bool moved = false;
    for (const std::size_t first : warps)
      while (run_warp(first)) {
        moved = true;
        if (machine.shuffled && machine.random() % 2 != 0) break;
      }
    bool all_done = true;
    for (const Thread& t : machine.threads) all_done = all_done && t.state == State::done;
    if (all_done) return end_block();
    moved = release_block() || moved;
    if (!moved) throw_stuck();
  }
}

// As many threads as the block has, each with its index.
void set_block(dim3 block) {
  blockDim = block;
  machine.threads.resize(std::size_t{block.x} * block.y * block.z);
  for (std::size_t i = 0; i < machine.threads.size(); ++i) {
    Thread& t = machine.threads[i];
    if (!t.fiber) t.fiber = std::make_unique<Fiber>(thread_main);
    const unsigned n = static_cast<unsigned>(i);
    t.index = {n % block.x, n / block.x % block.y, n / block.x / block.y};
  }
}

void run_grid(dim3 grid, dim3 block) {
  set_block(block);
  gridDim = {{grid.x}, {grid.y}, {grid.z}};
  const std::size_t blocks = std::size_t{grid.x} * grid.y * grid.z;
  std::vector<std::size_t> warps((machine.threads.size() + 31) / 32);
  for (std::size_t i = 0; i < warps.size(); ++i) warps[i] = 32 * i;
  std::vector<std::size_t> block_order(machine.shuffled ? blocks : 0);
  for (std::size_t i = 0; i < block_order.size(); ++i) block_order[i] = i;
  std::shuffle(block_order.begin(), block_order.end(), machine.random);
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t n = machine.shuffled ? block_order[i] : i;
    blockIdx = {{static_cast<unsigned>(n % grid.x)},
                {static_cast<unsigned>(n / grid.x % grid.y)},
                {static_cast<unsigned>(n / grid.x / grid.y)}};
    run_block(warps);
  }
}

}  // namespace

std::set<void*>& streams() {
  thread_local std::set<void*> all;
  return all;
}

void run(dim3 grid, dim3 block, std::size_t dynamic_bytes, const std::function<void()>& body) {
  const std::lock_guard<std::mutex> hold(machine.lock);
  const char* seed = std::getenv("REPDL_EMULATION_SEED");
  const unsigned number = seed ? static_cast<unsigned>(std::atoi(seed)) : 0;
  machine.shuffled = number != 0;
  machine.random.seed(number);
  machine.body = &body;
  machine.dynamic_bytes = dynamic_bytes;
  machine.error.clear();
  // A GPU rounds to nearest and keeps subnormals, whatever the caller has set.
  std::fenv_t environment;
  std::fegetenv(&environment);
  std::fesetenv(FE_DFL_ENV);
  try {
    run_grid(grid, block);
  } catch (...) {
    end_block();
    machine.threads.clear();  // fibers that are stuck in the kernel
    std::fesetenv(&environment);
    throw;
  }
  std::fesetenv(&environment);
}

void fail(const char* what) {
  Thread& self = *machine.running;
  machine.error = "emulation: " + place(self) + ": " + what;
  self.fiber->switch_to(machine.scheduler);  // for good
  std::abort();
}

int multiprocessors() {
  const char* number = std::getenv("REPDL_EMULATION_MULTIPROCESSORS");
  return number ? std::atoi(number) : 4;
}

bool wait_block(int line, bool vote) {
  Thread& self = *machine.running;
  self.value = vote;
  wait(State::at_barrier, line);
  return self.received[0] != 0;
}

const std::uint64_t* exchange(unsigned mask, std::uint64_t value, int line) {
  Thread& self = *machine.running;
  if (!(mask >> ((&self - machine.threads.data()) % 32) & 1)) fail("a thread that is not in its own mask");
  self.mask = mask;
  self.value = value;
  wait(State::at_exchange, line);
  return self.received;
}

void* shared_memory(const void* key, std::size_t bytes) {
  take(&machine.shared);  // whoever came first has filled it
  for (Shared& s : machine.shared)
    if (s.key == key) return s.memory.get();
  machine.shared.push_back({key, std::unique_ptr<unsigned char[]>(new unsigned char[bytes])});
  std::memset(machine.shared.back().memory.get(), 0xff, bytes);
  give(&machine.shared);
  return machine.shared.back().memory.get();
}

void* dynamic_memory() { return shared_memory(&machine, machine.dynamic_bytes); }

void copy_later(void* to, const void* from, std::size_t bytes, std::size_t zeros) {
  const auto misaligned = [bytes](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % bytes != 0; };
  if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes)
    fail("an asynchronous copy of a size other than 4, 8 or 16");
  if (misaligned(to) || misaligned(from)) fail("an asynchronous copy that is not aligned to its size");
  const Copy copy{to, from, bytes, zeros};
  if (machine.shuffled && machine.random() % 2)
    machine.running->open.push_back(copy);
  else
    make(copy);
}

void commit_copies() {
  Thread& self = *machine.running;
  self.groups.push_back(std::move(self.open));
  self.open.clear();
}

void wait_copies(std::size_t groups_left) {
  Thread& self = *machine.running;
  while (self.groups.size() > groups_left) {
    for (const Copy& copy : self.groups.front()) make(copy);
    self.groups.erase(self.groups.begin());
  }
}

}  // namespace repdl::emulation
