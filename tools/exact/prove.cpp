// Every argument of one exact function against the exact result. Built and run by prove.py.
//
//     prove FUNCTION STRIDE THREADS [ARGUMENT ...]
//     prove FUNCTION_vec STRIDE THREADS [ARGUMENT ...]
//     prove FUNCTION_pairs STRIDE THREADS [ARGUMENT ...]
//     prove pow:EXPONENT STRIDE THREADS [ARGUMENT ...]
//
// The exact result is screened with the double function of libm: where both ends of an
// interval of `margin` (relatively) around it round to one float, that float is right, and a
// result with other bits is wrong. What the screen leaves undecided is for prove.py, which
// asks MPFR, and so are the ARGUMENTs (bit patterns in hexadecimal). A function of a whole Vec, and what a
// GPU computes by pairs of floats, are compared with that of an element, whose proof is their own.
// Prints a line for each: "undecided ARGUMENT RESULT", "wrong ARGUMENT RESULT", and at the end
// "checked COUNT WRONG HASH".
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "exact/erf_vec.hpp"
#include "exact/exp2_vec.hpp"
#include "exact/exp_vec.hpp"
#include "exact/expm1_vec.hpp"
#include "exact/log_vec.hpp"
#include "exact/rsqrt_vec.hpp"
#include "exact/sigmoid_vec.hpp"
#include "exact/sin_vec.hpp"
#include "exact/tanh_vec.hpp"
#include "repdl/exact/pow.hpp"
#include "repdl/exact/powers.hpp"
#include "repdl/pointwise/exact.hpp"
#include "simd/row_loop.hpp"

namespace {

constexpr std::uint64_t all = std::uint64_t{1} << 32;
constexpr int block = 4096;

std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

namespace pointwise = repdl::pointwise;

// As CPU kernels call it: a loop that the compiler vectorises.
template <template <class> class F>
void loop(const float* x, float* y, int n) {
  using Paths = typename pointwise::PathsOf<F<float>>::type;
  if constexpr (std::is_void_v<Paths>) {
    for (int i = 0; i < n; ++i) y[i] = F<float>()(x[i]);
  } else {
    repdl::exact::evaluate(Paths(), y, n, x);
  }
}

// The same for a function of a whole Vec.
template <template <class> class F>
void loop_vec(const float* x, float* y, int n) {
  const F<repdl::cpu::Vec> f;
  repdl::cpu::row_loop(
      n, [=](std::int64_t i, auto part) __attribute__((always_inline)) { part.store(y + i, f(part.load(x + i))); });
}

// What a thread of a GPU does.
template <float (*f)(float)>
void loop_pairs(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = f(x[i]);
}

float exponent = 1;  // of pow

void pow_by_exponent(const float* x, float* y, int n) {
  const auto loop = [&](const auto& power) {
    for (int i = 0; i < n; ++i) y[i] = repdl::canonical(power(x[i]));
  };
  if (!repdl::exact::with_plain_power(exponent, loop)) repdl::exact::evaluate(repdl::exact::Pow(exponent), y, n, x);
}

double libm_pow(double x) { return std::pow(x, static_cast<double>(exponent)); }

using Loop = void (*)(const float*, float*, int);

struct Function {
  const char* name;
  Loop one, all, pairs;  // of an element; of a whole Vec and by pairs, if there are
  double (*libm)(double);
  double margin;  // at least twice the relative error of `libm`
};

// What `SCREENS` names, a list of SCREEN(function, margin) that prove.py makes of the functions' names.
namespace libm {
using namespace std;
double sigmoid(double x) { return 1 / (1 + exp(-x)); }
double rsqrt(double x) { return 1 / sqrt(x); }
// Two steps of Halley's method from Winitzki's formula; next to 0 the series.
double erfinv(double x) {
  constexpr double slope = 1.1283791670955126, a = 0.147;  // 2 / sqrt(pi)
  if (fabs(x) < 0x1p-14) return x / slope * (1 + x * x / slope / slope / 3);
  if (fabs(x) >= 1) return fabs(x) > 1 ? NAN : x * INFINITY;
  const double w = log1p(-x * x), b = 2 / (M_PI * a) + w / 2, t = fabs(x);
  double y = sqrt(-w / a / (sqrt(b * b - w / a) + b));
  for (int i = 0; i < 2; ++i) {
    const double error = (t < 0.75 ? erf(y) - t : (1 - t) - erfc(y)) / (slope * exp(-y * y));
    y -= error / (1 + y * error);
  }
  return copysign(y, x);
}
}  // namespace libm

struct Screen {
  const char* name;
  double (*libm)(double);
  double margin;
};
#define SCREEN(name, margin) {#name, libm::name, margin},
const Screen screens[] = {SCREENS};

// The same for functions by pairs: `PAIRED`, a list of PAIRS(function).
struct Paired {
  const char* name;
  Loop loop;
};
#define PAIRS(name) {#name, loop_pairs<repdl::exact::name##_by_pairs>},
const Paired paired[] = {PAIRED};

// Of the list of exact functions that the kernels are made of.
template <template <class> class F>
void add(std::vector<Function>& functions) {
  if constexpr (pointwise::Parameters<F<float>>::count == 1) {
    Function function{F<float>::op, loop<F>, nullptr, nullptr, nullptr, 0};
    if constexpr (F<float>::vectors) function.all = loop_vec<F>;
    for (const Screen& screen : screens) {
      if (std::strcmp(screen.name, function.name) == 0) function.libm = screen.libm, function.margin = screen.margin;
    }
    for (const Paired& by : paired) {
      if (std::strcmp(by.name, function.name) == 0) function.pairs = by.loop;
    }
    functions.push_back(function);
  }
}

template <template <class> class... F>
std::vector<Function> all_of(pointwise::List<F...>) {
  std::vector<Function> functions{{"pow", pow_by_exponent, nullptr, nullptr, libm_pow, 0x1p-50}};
  (add<F>(functions), ...);
  return functions;
}

struct Counts {
  std::uint64_t checked = 0, wrong = 0, hash = 0;
};

// splitmix64's mixing of argument and result; the hash is the sum, whatever the order.
std::uint64_t mixed(std::uint32_t argument, std::uint32_t result) {
  std::uint64_t h = (std::uint64_t{argument} << 32 | result) + 0x9e3779b97f4a7c15u;
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
  h = (h ^ h >> 27) * 0x94d049bb133111ebu;
  return h ^ h >> 31;
}

// Whether the screen decides; if so, `right` is the result's bits.
bool decided(const Function& function, float x, std::uint32_t& right) {
  const double y = function.libm(static_cast<double>(x));
  const float below = static_cast<float>(y * (1 - function.margin));
  const float above = static_cast<float>(y * (1 + function.margin));
  right = std::isnan(y) ? 0x7fc00000u : bits_of(below);
  return std::isnan(y) || bits_of(below) == bits_of(above);
}

// By the loop of an element, or by another one, which is compared with that.
Counts checked(const Function& function, Loop loop, std::uint64_t first, std::uint64_t last, std::uint64_t stride) {
  const bool other = loop != function.one;
  float x[block], y[block], header[block];
  Counts counts;
  for (std::uint64_t start = first; start < last; start += stride * block) {
    const int n = static_cast<int>(std::min<std::uint64_t>(block, (last - start + stride - 1) / stride));
    for (int i = 0; i < n; ++i) {
      x[i] = repdl::exact::float_from_bits(static_cast<std::uint32_t>(start + stride * i));
    }
    if (other) function.one(x, header, n);
    loop(x, y, n);
    for (int i = 0; i < n; ++i) counts.hash += mixed(bits_of(x[i]), bits_of(y[i]));
    counts.checked += n;
    if (other && std::memcmp(y, header, sizeof(float) * n) == 0) continue;
    for (int i = 0; i < n; ++i) {
      const std::uint32_t got = bits_of(y[i]);
      std::uint32_t right = bits_of(header[i]);
      if (!other && !decided(function, x[i], right)) {
        std::printf("undecided %08x %08x\n", bits_of(x[i]), got);
      } else if (got != right && ++counts.wrong <= 20) {
        std::printf("wrong %08x %08x\n", bits_of(x[i]), got);
      }
    }
  }
  return counts;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Function> functions = all_of(pointwise::ExactFunctions());
  const Function* function = nullptr;
  Loop loop = nullptr;
  for (const Function& f : functions) {
    const std::size_t length = std::strlen(f.name);
    if (argc < 4 || std::strncmp(argv[1], f.name, length) != 0) continue;
    if (argv[1][length] == 0) function = &f, loop = f.one;
    if (std::strcmp(argv[1] + length, "_vec") == 0) function = &f, loop = f.all;
    if (std::strcmp(argv[1] + length, "_pairs") == 0) function = &f, loop = f.pairs;
    if (argv[1][length] == ':') function = &f, loop = f.one, exponent = std::strtof(argv[1] + length + 1, nullptr);
  }
  if (function == nullptr || function->libm == nullptr || loop == nullptr)
    return std::fputs("prove FUNCTION STRIDE THREADS [ARGUMENT ...]\n", stderr), 2;
  const std::uint64_t stride = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t threads = std::strtoull(argv[3], nullptr, 10);

  const std::uint64_t arguments = (all + stride - 1) / stride;
  std::vector<Counts> counts(threads);
  std::vector<std::thread> team;
  for (std::uint64_t t = 0; t < threads; ++t) {
    team.emplace_back([=, &counts] {
      const std::uint64_t last = std::min(all, arguments * (t + 1) / threads * stride);
      counts[t] = checked(*function, loop, arguments * t / threads * stride, last, stride);
    });
  }
  Counts sum;
  for (std::uint64_t t = 0; t < threads; ++t) {
    team[t].join();
    sum.checked += counts[t].checked;
    sum.wrong += counts[t].wrong;
    sum.hash += counts[t].hash;
  }
  for (int i = 4; i < argc; ++i) {
    const float x = repdl::exact::float_from_bits(std::strtoul(argv[i], nullptr, 16));
    float y;
    loop(&x, &y, 1);
    std::printf("undecided %08x %08x\n", bits_of(x), bits_of(y));
  }
  std::printf("checked %llu %llu %016llx\n", static_cast<unsigned long long>(sum.checked),
              static_cast<unsigned long long>(sum.wrong), static_cast<unsigned long long>(sum.hash));
}
