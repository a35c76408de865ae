// Padding that repeats elements, and its gradient (pad.md).
//
//   for i < outer, o < padded, j < inner:  (outer, n, inner) -> (outer, padded, inner)
//     y[i, o, j] = x[i, s(o - left), j]
//   for i < outer, e < n, j < inner:  (outer, padded, inner) -> (outer, n, inner)
//     out[i, e, j] = sum of grad[i, o, j] over the o with s(o - left) = e, o ascending from +0
#include "base/launch.hpp"
#include "base/ops.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/host_device.hpp"

namespace repdl::cuda {
namespace {

constexpr int threads = 256;

enum class Mode { reflect, replicate, circular };

// A side of n elements and what is put before and after it.
struct Side {
  Mode mode;
  std::int64_t n, left, right;

  REPDL_HD std::int64_t padded() const { return left + n + right; }

  // The element that position i, from -left to n + right, copies.
  __device__ std::int64_t source(std::int64_t i) const {
    if (i >= 0 && i < n) return i;
    if (mode == Mode::replicate) return i < 0 ? 0 : n - 1;
    if (mode == Mode::circular) return i < 0 ? i + n : i - n;
    return i < 0 ? -i : 2 * (n - 1) - i;
  }

  // f(i) for the positions that copy element e, ascending.
  template <class F>
  __device__ void for_each_copy(std::int64_t e, const F& f) const {
    if (mode == Mode::replicate) {
      if (e == 0)
        for (std::int64_t i = -left; i < 0; ++i) f(i);
      f(e);
      if (e == n - 1)
        for (std::int64_t i = n; i < n + right; ++i) f(i);
      return;
    }
    const std::int64_t before = mode == Mode::circular ? e - n : -e;
    const std::int64_t after = mode == Mode::circular ? e + n : 2 * (n - 1) - e;
    if (before < 0 && before >= -left) f(before);
    f(e);
    if (after >= n && after < n + right) f(after);
  }
};

// Element `index` of (outer, size, inner).
struct Place {
  std::int64_t outer, at, inner;

  __device__ Place(std::int64_t index, std::int64_t size, std::int64_t inners)
      : outer(index / inners / size), at(index / inners % size), inner(index % inners) {}
};

template <class T>
__global__ void __launch_bounds__(threads)
    copy_elements(const T* x, T* y, Side side, std::int64_t inner, std::int64_t count) {
  const std::int64_t index = thread_index();
  if (index >= count) return;
  const Place to(index, side.padded(), inner);
  y[index] = canonical(x[(to.outer * side.n + side.source(to.at - side.left)) * inner + to.inner]);
}

template <class T>
__global__ void __launch_bounds__(threads)
    sum_copies(const T* grad, T* y, Side side, std::int64_t inner, std::int64_t count) {
  const std::int64_t index = thread_index();
  if (index >= count) return;
  const Place to(index, side.n, inner);
  T sum = T(0);
  side.for_each_copy(
      to.at, [&](std::int64_t i) { sum += grad[(to.outer * side.padded() + i + side.left) * inner + to.inner]; });
  y[index] = canonical(sum);
}

Side side_of(const std::string& mode, std::int64_t n, std::int64_t left, std::int64_t right) {
  return {mode == "replicate" ? Mode::replicate : mode == "circular" ? Mode::circular : Mode::reflect, n, left, right};
}

}  // namespace

template <class T>
void pad(Address x, Address y, std::int64_t outer, std::int64_t n, std::int64_t inner, std::int64_t left,
         std::int64_t right, const std::string& mode, const Stream& stream) {
  const Side side = side_of(mode, n, left, right);
  const std::int64_t count = outer * side.padded() * inner;
  launch("pad", copy_elements<T>, {ceil_div(count, threads)}, threads, 0, stream, in<T>(x), out<T>(y), side, inner,
         count);
}

template <class T>
void pad_backward(Address grad, Address y, std::int64_t outer, std::int64_t n, std::int64_t inner, std::int64_t left,
                  std::int64_t right, const std::string& mode, const Stream& stream) {
  const std::int64_t count = outer * n * inner;
  launch("pad_backward", sum_copies<T>, {ceil_div(count, threads)}, threads, 0, stream, in<T>(grad), out<T>(y),
         side_of(mode, n, left, right), inner, count);
}

template void pad<float>(Address, Address, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         const std::string&, const Stream&);
template void pad<double>(Address, Address, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                          const std::string&, const Stream&);
template void pad_backward<float>(Address, Address, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                                  std::int64_t, const std::string&, const Stream&);
template void pad_backward<double>(Address, Address, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                                   std::int64_t, const std::string&, const Stream&);

}  // namespace repdl::cuda
