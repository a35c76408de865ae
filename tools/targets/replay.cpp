// Calls the kernels of repdl-cpu as replay.py recorded them, and compares every byte that they wrote.
//
//   replay RECORD MODE...    MODE is nearest, down, up, zero, or flush where the target has it
//
// One program: REPDL_KERNELS includes all sources of repdl-cpu/native.
#include <cfenv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include <pybind11/pybind11.h>

void bind_kernels(pybind11::module_& module);

#include REPDL_KERNELS

namespace {

using Bytes = std::vector<unsigned char>;

bool big_endian() {
  const std::uint16_t one = 1;
  unsigned char first;
  std::memcpy(&first, &one, 1);
  return first == 0;
}

// Little-endian elements as the target has them, or back.
void swap_elements(unsigned char* data, std::size_t n, std::size_t size) {
  if (!big_endian()) return;
  for (std::size_t i = 0; i + size <= n; i += size)
    for (std::size_t j = 0; j < size / 2; ++j) std::swap(data[i + j], data[i + size - 1 - j]);
}

// The caller's environment, and a way to see that it is kept.
struct Mode {
  const char* name;
  int rounding;
};
constexpr Mode modes[] = {{"nearest", FE_TONEAREST}, {"down", FE_DOWNWARD}, {"up", FE_UPWARD}, {"zero", FE_TOWARDZERO}};

bool set_flush(bool on) {
#if defined(__aarch64__)
  std::uint64_t word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  word = on ? word | (std::uint64_t{1} << 24) : word & ~(std::uint64_t{1} << 24);
  asm volatile("msr fpcr, %0" : : "r"(word));
  return true;
#elif defined(__SSE2__)
  _mm_setcsr(on ? _mm_getcsr() | 0x8040 : _mm_getcsr() & ~0x8040u);
  return true;
#else
  return !on;
#endif
}

bool flushes() {
  volatile float tiny = 0x1p-130f, half = 0.5f;
  return tiny * half == 0.0f;
}

int replay(const Bytes& file, const pybind11::Kernels& kernels, const std::string& mode) {
  int rounding = mode == "flush" ? FE_TONEAREST : -1;
  for (const Mode& m : modes)
    if (mode == m.name) rounding = m.rounding;
  if (rounding < 0) throw std::runtime_error("replay: no mode " + mode);
  if (mode == "flush") {
    if (!set_flush(true) || !flushes()) return std::printf("flush: this target has no such mode\n"), 0;
    set_flush(false);
  }
  pybind11::Reader record(file.data(), file.size());
  long calls = 0, differ = 0;
  std::set<std::string> wrong;
  while (!record.empty()) {
    const std::string name = record.text();
    std::vector<Bytes> before, after;
    std::vector<std::size_t> element;
    for (std::uint64_t n = record.word(); n > 0; --n) {
      element.push_back(record.word());
      for (std::vector<Bytes>* contents : {&before, &after}) {
        const std::size_t size = record.word();
        const unsigned char* p = record.bytes(size);
        contents->emplace_back(p, p + size);
      }
    }
    const std::size_t size = record.word();
    pybind11::Reader arguments(record.bytes(size), size);
    for (std::size_t i = 0; i < before.size(); ++i) {
      auto* memory = static_cast<unsigned char*>(std::aligned_alloc(64, (before[i].size() / 64 + 1) * 64));
      if (!memory) throw std::bad_alloc();
      if (!before[i].empty()) std::memcpy(memory, before[i].data(), before[i].size());
      swap_elements(memory, before[i].size(), element[i]);
      arguments.buffers.push_back(memory);
    }
    std::fesetround(rounding);
    set_flush(mode == "flush");
    kernels.at(name)(arguments);
    const bool kept = std::fegetround() == rounding && flushes() == (mode == "flush");
    set_flush(false);
    std::fesetround(FE_TONEAREST);
    bool same = kept;
    for (std::size_t i = 0; i < before.size(); ++i) {
      swap_elements(arguments.buffers[i], after[i].size(), element[i]);
      same = same && (after[i].empty() || std::memcmp(arguments.buffers[i], after[i].data(), after[i].size()) == 0);
      std::free(arguments.buffers[i]);
    }
    ++calls;
    if (!same) ++differ, wrong.insert(name);
  }
  std::printf("%-8s %ld calls, %ld differ", mode.c_str(), calls, differ);
  for (const std::string& name : wrong) std::printf(" %s", name.c_str());
  std::printf("\n");
  std::fflush(stdout);
  return differ != 0;
}

}  // namespace

int main(int count, char** arguments) {
  std::ifstream stream(arguments[1], std::ios::binary);
  const Bytes file{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  pybind11::Kernels kernels;
  pybind11::module_ module(kernels);
  bind_kernels(module);
  int failed = 0;
  for (int i = 2; i < count; ++i) failed |= replay(file, kernels, arguments[i]);
  return failed;
}
