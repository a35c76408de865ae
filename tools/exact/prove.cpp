// Every argument of one exact function against the exact result. Built and run by prove.py.
//
//     prove FUNCTION STRIDE THREADS
//
// The exact result is screened with the double function of libm: where both ends of an
// interval of `margin` (relatively) around it round to one float, that float is right. MPFR
// decides the rest, rounding once to 24 bits or to a subnormal.
// Prints: arguments checked, undecided by the screen, wrong, hash. Wrong ones go to stderr.
#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "exp_vec.hpp"
#include "log_vec.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/expm1.hpp"
#include "repdl/exact/log.hpp"
#include "repdl/exact/sigmoid.hpp"
#include "repdl/exact/tanh.hpp"
#include "sweep.hpp"

namespace {

constexpr std::uint64_t all = std::uint64_t{1} << 32;
constexpr int block = 4096;

std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

// As CPU kernels call it: a plain loop that the compiler vectorises.
template <float (*function)(float)>
void loop(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = function(x[i]);
}

// The same for a function of a whole Vec.
template <repdl::cpu::Vec (*function)(repdl::cpu::Vec)>
void loop_vec(const float* x, float* y, int n) {
  repdl::cpu::sweep(n, [=](std::int64_t i, auto part) { part.store(y + i, function(part.load(x + i))); });
}

struct Function {
  const char* name;
  void (*ours)(const float*, float*, int);
  double (*libm)(double);
  int (*mpfr)(mpfr_t, mpfr_srcptr, mpfr_rnd_t);
  double margin;  // at least twice the relative error of `libm`
};

double libm_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// 200 bits with MPFR's own exponents (exp(104) is no float), then one rounding.
int mpfr_sigmoid(mpfr_t y, mpfr_srcptr x, mpfr_rnd_t rounding) {
  const mpfr_exp_t low = mpfr_get_emin(), high = mpfr_get_emax();
  mpfr_set_emin(mpfr_get_emin_min());
  mpfr_set_emax(mpfr_get_emax_max());
  mpfr_t t;
  mpfr_init2(t, 200);
  mpfr_neg(t, x, MPFR_RNDN);
  mpfr_exp(t, t, MPFR_RNDN);
  mpfr_add_ui(t, t, 1, MPFR_RNDN);
  const int ternary = mpfr_ui_div(y, 1, t, rounding);
  mpfr_clear(t);
  mpfr_set_emin(low);
  mpfr_set_emax(high);
  return mpfr_check_range(y, ternary, rounding);
}

// A new function is one line here and one #include above.
const Function functions[] = {
    {"exp", loop<repdl::exact::exp>, std::exp, mpfr_exp, 0x1p-51},
    {"exp_vec", loop_vec<repdl::cpu::exp>, std::exp, mpfr_exp, 0x1p-51},
    {"expm1", loop<repdl::exact::expm1>, std::expm1, mpfr_expm1, 0x1p-50},
    {"log", loop<repdl::exact::log>, std::log, mpfr_log, 0x1p-51},
    {"log_vec", loop_vec<repdl::cpu::log>, std::log, mpfr_log, 0x1p-51},
    {"sigmoid", loop<repdl::exact::sigmoid>, libm_sigmoid, mpfr_sigmoid, 0x1p-49},
    {"tanh", loop<repdl::exact::tanh>, std::tanh, mpfr_tanh, 0x1p-49},
};

struct Counts {
  std::uint64_t checked = 0, undecided = 0, wrong = 0, hash = 0;
};

// splitmix64's mixing of argument and result; the hash is the sum, whatever the order.
std::uint64_t mixed(std::uint32_t argument, std::uint32_t result) {
  std::uint64_t h = (std::uint64_t{argument} << 32 | result) + 0x9e3779b97f4a7c15u;
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
  h = (h ^ h >> 27) * 0x94d049bb133111ebu;
  return h ^ h >> 31;
}

// One rounding, with the exponents of a float (MPFR's mantissa is in [1/2, 1)).
float decided_by_mpfr(const Function& function, float x) {
  mpfr_set_emin(-148);
  mpfr_set_emax(128);
  mpfr_t t;
  mpfr_init2(t, 24);
  mpfr_set_flt(t, x, MPFR_RNDN);
  const int ternary = function.mpfr(t, t, MPFR_RNDN);
  mpfr_subnormalize(t, ternary, MPFR_RNDN);
  const float result = mpfr_get_flt(t, MPFR_RNDN);
  mpfr_clear(t);
  return result;
}

std::uint32_t expected(const Function& function, float x, Counts& counts) {
  const double y = function.libm(static_cast<double>(x));
  if (std::isnan(y)) return 0x7fc00000u;
  const float below = static_cast<float>(y * (1 - function.margin));
  const float above = static_cast<float>(y * (1 + function.margin));
  if (bits_of(below) == bits_of(above)) return bits_of(below);
  ++counts.undecided;
  return bits_of(decided_by_mpfr(function, x));
}

Counts checked(const Function& function, std::uint64_t first, std::uint64_t last,
               std::uint64_t stride) {
  static std::mutex printing;
  float x[block], y[block];
  Counts counts;
  for (std::uint64_t start = first; start < last; start += stride * block) {
    const int n = static_cast<int>(
        std::min<std::uint64_t>(block, (last - start + stride - 1) / stride));
    for (int i = 0; i < n; ++i) {
      x[i] = repdl::exact::float_from_bits(static_cast<std::uint32_t>(start + stride * i));
    }
    function.ours(x, y, n);
    for (int i = 0; i < n; ++i) {
      const std::uint32_t got = bits_of(y[i]);
      const std::uint32_t right = expected(function, x[i], counts);
      counts.hash += mixed(bits_of(x[i]), got);
      if (got != right && ++counts.wrong <= 20) {
        const std::lock_guard<std::mutex> lock(printing);
        std::fprintf(stderr, "%s(0x%08x = %a) is 0x%08x, right is 0x%08x = %a\n", function.name,
                     bits_of(x[i]), x[i], got, right, repdl::exact::float_from_bits(right));
      }
    }
    counts.checked += n;
  }
  return counts;
}

}  // namespace

int main(int argc, char** argv) {
  const Function* function = nullptr;
  for (const Function& f : functions) {
    if (argc == 4 && std::strcmp(argv[1], f.name) == 0) function = &f;
  }
  if (function == nullptr) return std::fputs("prove FUNCTION STRIDE THREADS\n", stderr), 2;
  const std::uint64_t stride = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t threads = std::strtoull(argv[3], nullptr, 10);

  const std::uint64_t arguments = (all + stride - 1) / stride;
  std::vector<Counts> counts(threads);
  std::vector<std::thread> team;
  for (std::uint64_t t = 0; t < threads; ++t) {
    team.emplace_back([=, &counts] {
      const std::uint64_t last = std::min(all, arguments * (t + 1) / threads * stride);
      counts[t] = checked(*function, arguments * t / threads * stride, last, stride);
    });
  }
  Counts sum;
  for (std::uint64_t t = 0; t < threads; ++t) {
    team[t].join();
    sum.checked += counts[t].checked;
    sum.undecided += counts[t].undecided;
    sum.wrong += counts[t].wrong;
    sum.hash += counts[t].hash;
  }
  std::printf("%llu %llu %llu %016llx\n", static_cast<unsigned long long>(sum.checked),
              static_cast<unsigned long long>(sum.undecided),
              static_cast<unsigned long long>(sum.wrong),
              static_cast<unsigned long long>(sum.hash));
  return sum.wrong != 0;
}
