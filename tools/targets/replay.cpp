// Calls the kernels of repdl-cpu as replay.py recorded them, and compares every byte that they wrote.
//
//   replay RECORD MODE...    MODE is nearest, down, up, zero, or flush where the target has it
//
// One program: REPDL_KERNELS includes all sources of repdl-cpu/native.
#include <cfenv>
#include <cstdio>
#include <fstream>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <new>
#include <set>
#include <string>

#include "base/environment.hpp"
#include "repdl/backend.hpp"

#include REPDL_KERNELS

namespace {

using Bytes = std::vector<unsigned char>;

// What replay.py wrote: words are little-endian.
class Reader {
 public:
  Reader(const unsigned char* data, std::size_t size) : at_(data), end_(data + size) {}

  bool empty() const { return at_ == end_; }
  const unsigned char* bytes(std::size_t n) {
    if (static_cast<std::size_t>(end_ - at_) < n) throw std::runtime_error("replay: the record is cut");
    at_ += n;
    return at_ - n;
  }
  std::uint64_t word() {
    const unsigned char* p = bytes(8);
    std::uint64_t result = 0;
    for (int i = 7; i >= 0; --i) result = result << 8 | p[i];
    return result;
  }
  std::int64_t integer() { return static_cast<std::int64_t>(word()); }
  std::string text() {
    const std::size_t n = word();
    return {reinterpret_cast<const char*>(bytes(n)), n};
  }

 private:
  const unsigned char *at_, *end_;
};

// The arguments of one call, and what they point at.
class Decoder {
 public:
  Decoder(Reader& from, const std::vector<unsigned char*>& buffers) : from_(from), buffers_(buffers) {}

  repdl::Argument argument() {
    switch (*from_.bytes(1)) {
      case 'n': return {};
      case 'b': return from_.word() != 0;
      case 'i': return from_.integer();
      case 'd': {
        const std::uint64_t bits = from_.word();
        double value;
        std::memcpy(&value, &bits, 8);
        return value;
      }
      case 's': return std::string_view(texts_.emplace_back(from_.text()));
      case 'y': return static_cast<repdl::DType>(from_.word());
      case 'c': {
        repdl::Contract contract;
        contract.dot_chunk = from_.integer();
        contract.sum_lanes = from_.integer();
        contract.sum_block = from_.integer();
        return contract;
      }
      case 'l': return list();
      case 't': return tensor();
    }
    throw std::runtime_error("replay: an argument of no kind that is known");
  }

 private:
  repdl::Argument list() {
    const std::size_t n = from_.word();
    std::vector<std::int64_t>& numbers = numbers_.emplace_back();
    std::vector<repdl::Tensor>& tensors = tensors_.emplace_back();
    for (std::size_t i = 0; i < n; ++i) {
      if (*from_.bytes(1) == 'i')
        numbers.push_back(from_.integer());
      else
        tensors.push_back(tensor());
    }
    if (n == 0) return {};
    if (tensors.empty()) return repdl::Ints{numbers.data(), n};
    return repdl::Tensors{tensors.data(), n};
  }

  repdl::Tensor tensor() {
    repdl::Tensor result;
    unsigned char* buffer = buffers_.at(from_.word());
    result.data = buffer + from_.word();
    result.dtype = static_cast<repdl::DType>(from_.word());
    result.dims = static_cast<int>(from_.word());
    result.given = true;
    std::vector<std::int64_t>& shape = numbers_.emplace_back();
    for (int i = 0; i < 2 * result.dims; ++i) shape.push_back(from_.integer());
    result.size = shape.data();
    result.stride = shape.data() + result.dims;
    return result;
  }

  Reader& from_;
  const std::vector<unsigned char*>& buffers_;
  std::deque<std::vector<std::int64_t>> numbers_;
  std::deque<std::vector<repdl::Tensor>> tensors_;
  std::deque<std::string> texts_;
};

// So many bytes, the first of them at a multiple of 64.
using Aligned = std::unique_ptr<unsigned char, void (*)(unsigned char*)>;
Aligned aligned(std::size_t bytes) {
  constexpr std::align_val_t place{64};
  return {static_cast<unsigned char*>(::operator new((bytes / 64 + 1) * 64, place)),
          [](unsigned char* memory) { ::operator delete(memory, place); }};
}

// Memory that a kernel asks for, until the call has ended.
struct Memory {
  std::vector<Aligned> pieces;

  static void* allocate(void* self, std::size_t bytes) {
    return static_cast<Memory*>(self)->pieces.emplace_back(aligned(bytes)).get();
  }
};

// The kernel that Python calls (op, dtype).
const repdl::Kernel& kernel_of(const std::string& name) {
  for (const repdl::Kernel& kernel : repdl::kernels())
    if (name == std::string(kernel.op) + (kernel.dtype == repdl::DType::float64 ? " float64" : " float32"))
      return kernel;
  throw std::runtime_error("replay: no kernel " + name);
}

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

int replay(const Bytes& file, const std::string& mode) {
  int rounding = mode == "flush" ? FE_TONEAREST : -1;
  for (const Mode& m : modes)
    if (mode == m.name) rounding = m.rounding;
  if (rounding < 0) throw std::runtime_error("replay: no mode " + mode);
  if (mode == "flush") {
    if (!set_flush(true) || !flushes()) return std::printf("flush: this target has no such mode\n"), 0;
    set_flush(false);
  }
  Reader record(file.data(), file.size());
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
    std::vector<Aligned> owned;
    std::vector<unsigned char*> buffers;
    for (std::size_t i = 0; i < before.size(); ++i) {
      unsigned char* memory = owned.emplace_back(aligned(before[i].size())).get();
      if (!before[i].empty()) std::memcpy(memory, before[i].data(), before[i].size());
      swap_elements(memory, before[i].size(), element[i]);
      buffers.push_back(memory);
    }
    const repdl::Kernel& kernel = kernel_of(name);
    Memory workspace;
    repdl::ExecContext exec{kernel.op};
    exec.threads = static_cast<int>(record.word());
    exec.allocate = Memory::allocate;
    exec.owner = &workspace;
    const std::size_t count = record.word(), size = record.word();
    Reader encoded(record.bytes(size), size);
    Decoder decoder(encoded, buffers);
    std::vector<repdl::Argument> arguments;
    for (std::size_t i = 0; i < count; ++i) arguments.push_back(decoder.argument());
    std::fesetround(rounding);
    set_flush(mode == "flush");
    kernel.call(arguments.data(), exec);
    const bool kept = std::fegetround() == rounding && flushes() == (mode == "flush");
    set_flush(false);
    std::fesetround(FE_TONEAREST);
    bool same = kept;
    for (std::size_t i = 0; i < before.size(); ++i) {
      swap_elements(buffers[i], after[i].size(), element[i]);
      same = same && (after[i].empty() || std::memcmp(buffers[i], after[i].data(), after[i].size()) == 0);
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
  int failed = 0;
  for (int i = 2; i < count; ++i) failed |= replay(file, arguments[i]);
  return failed;
}
