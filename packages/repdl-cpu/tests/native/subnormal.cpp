// Whether the functions of a whole Vec compute with subnormal floats: test_subnormal.py.
//
//     subnormal STRIDE
//
// Every STRIDEth normal argument with a normal result, and zeros. The processor says in its control and
// status register (MXCSR) whether an operand was subnormal (DE), or a result subnormal and inexact (UE).
// Prints "FUNCTION CHECKED BAD FIRST", FIRST the first argument of the first bad Vec.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "exact/erf_vec.hpp"
#include "exact/exp2_vec.hpp"
#include "exact/exp_vec.hpp"
#include "exact/expm1_vec.hpp"
#include "exact/log_vec.hpp"
#include "exact/rsqrt_vec.hpp"
#include "exact/sigmoid_vec.hpp"
#include "exact/sin_vec.hpp"
#include "exact/tanh_vec.hpp"

namespace {

using repdl::cpu::Vec;
constexpr unsigned denormal_operand = 0x02, underflow = 0x10;

template <Vec (*function)(Vec)>
void of_vec(const float* x, float* y) {
  function(Vec::load(x)).store(y);
}

struct Function {
  const char* name;
  float (*one)(float);
  void (*all)(const float*, float*);
};

#define FUNCTION(name) {#name, repdl::exact::name, of_vec<repdl::cpu::name>}
const Function functions[] = {
    FUNCTION(cos),  FUNCTION(erf),   FUNCTION(exp), FUNCTION(exp2), FUNCTION(expm1),   FUNCTION(log),   FUNCTION(log10),
    FUNCTION(log2), FUNCTION(log1p), FUNCTION(sin), FUNCTION(tanh), FUNCTION(sigmoid), FUNCTION(rsqrt),
};

bool flagged(const Function& f, const float* x) {
  float y[Vec::width];
  _mm_setcsr(_mm_getcsr() & ~(denormal_operand | underflow));
  asm volatile("" ::: "memory");
  f.all(x, y);
  asm volatile("" ::"r"(y) : "memory");
  return (_mm_getcsr() & (denormal_operand | underflow)) != 0;
}

}  // namespace

int main(int, char** argv) {
  const std::uint64_t stride = std::strtoull(argv[1], nullptr, 10);
  for (const Function& f : functions) {
    unsigned long checked = 0, bad = 0;
    float x[Vec::width], first = 0;
    int n = 0;
    for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += stride) {
      x[n] = repdl::exact::float_from_bits(static_cast<std::uint32_t>(bits));
      if (!std::isnormal(x[n]) || !std::isnormal(f.one(x[n]))) continue;
      if (++n < Vec::width) continue;
      if (flagged(f, x) && bad++ == 0) first = x[0];
      checked += Vec::width;
      n = 0;
    }
    const float zeros[Vec::width] = {0.0f, -0.0f};
    if (flagged(f, zeros)) ++bad;
    std::printf("%s %lu %lu %a\n", f.name, checked, bad, static_cast<double>(first));
  }
}
