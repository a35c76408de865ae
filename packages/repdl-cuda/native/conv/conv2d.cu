// conv2d and its gradients (conv2d.md), as products over images (images.hpp, gemm.hpp).
//
//   for each n, o, (i, j):  (N, C, H, W), (O, C / groups, KH, KW) -> (N, O, OH, OW)
//     y[n, o, i, j] = dot over k = (c, a, b) of w[o, k] and x[n, c, i * stride + a * dilation - padding, ...]
//                     (+ bias[o])
//
// conv2d              w (O, k)      times windows of x (k, positions)
// conv2d_grad_weight  grad (O, k)   times taps of x (k, taps), k the positions
// conv2d_grad_input   w' (C, k)     times windows of grad (k, positions), for each class of
//                     positions that see the same taps: those with one remainder of
//                     (h + padding) mod stride
//
// Where a group has very few channels (depthwise), few.hpp computes the same without tiles.
#include "conv/direct_conv.hpp"
#include "gemm/gemm_run.hpp"
#include "conv/images.hpp"
#include "base/ops.hpp"
#include "gemm/strided.hpp"

namespace repdl::cuda {
namespace {

// The sizes that Python gives, in its order.
struct Conv {
  std::int64_t n, c, h, w, o, oh, ow, kh, kw, stride[2], padding[2], dilation[2], groups;

  Conv(const char* op, const Sizes& s)
      : n(s.at(0)), c(s[1]), h(s[2]), w(s[3]), o(s[4]), oh(s[5]), ow(s[6]), kh(s[7]), kw(s[8]), stride{s[9], s[10]},
        padding{s[11], s[12]}, dilation{s[13], s[14]}, groups(s.at(15)) {
    constexpr std::int64_t most = 2147483647;
    const std::int64_t padded[2] = {h + 2 * padding[0], w + 2 * padding[1]};
    for (const std::int64_t count :
         {c / groups * h * w, o / groups * oh * ow, c / groups * kh * kw, o / groups * kh * kw, n * oh * ow, n * h * w,
          padded[0] * padded[1], stride[0], stride[1]})
      if (count > most)
        throw std::runtime_error(std::string(op) +
                                 ": one group of an image or of the kernel, or the positions of all "
                                 "images, are " +
                                 std::to_string(count) + " elements, expected at most " + std::to_string(most) +
                                 "; use smaller tensors");
  }

  std::int64_t in_channels() const { return c / groups; }
  std::int64_t out_channels() const { return o / groups; }
};

template <class T>
Images<T> images(Address address, std::int64_t channels, std::int64_t groups, std::int64_t height, std::int64_t width) {
  return {in<T>(address), static_cast<int>(channels / groups), static_cast<int>(height), static_cast<int>(width),
          channels * height * width};
}

int narrow(std::int64_t x) { return static_cast<int>(x); }  // Conv has checked it

WindowShape window_of(const Conv& v) {
  return {Divide(narrow(v.oh * v.ow)),
          Divide(narrow(v.ow)),
          Divide(narrow(v.kh * v.kw)),
          Divide(narrow(v.kw)),
          {narrow(v.stride[0]), narrow(v.stride[1])},
          {narrow(v.dilation[0]), narrow(v.dilation[1])},
          {narrow(-v.padding[0]), narrow(-v.padding[1])}};
}

// Along one side of the input: every stride-th element from `first` on, `count` of them, sees
// the taps tap + t * tap_step, t < taps; tap t of element i is output i - t * step + start.
struct Class {
  std::int64_t first, count, tap, tap_step, taps, step, start;
};
std::vector<Class> classes(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                           std::int64_t dilation) {
  std::vector<Class> result;
  for (std::int64_t first = 0; first < std::min(stride, size); ++first) {
    Class one = {first, ceil_div(size - first, stride), 0, 0, 0, 0, 0};
    for (std::int64_t tap = kernel - 1; tap >= 0; --tap) {
      if ((first + padding - tap * dilation) % stride != 0) continue;
      if (one.taps != 0) one.tap_step = one.tap - tap;
      one.tap = tap;
      ++one.taps;
    }
    one.step = one.tap_step * dilation / stride;
    one.start = (first + padding - one.tap * dilation) / stride;
    result.push_back(one);
  }
  return result;
}

// packed[g, (o, a, b), c] = w[g, o, c, tap a, tap b]: what one class of inputs is multiplied with
constexpr int threads = 256;
template <class T>
__global__ void __launch_bounds__(threads) pack(const T* w, T* packed, Class rows, Class columns, std::int64_t c,
                                                std::int64_t kh, std::int64_t kw, std::int64_t count) {
  std::int64_t i = thread_index();
  if (i >= count) return;
  T* to = packed + i;
  const std::int64_t channel = i % c;
  i /= c;
  const std::int64_t b = i % columns.taps;
  i /= columns.taps;
  const std::int64_t a = i % rows.taps;
  i /= rows.taps;  // (g, o)
  *to = w[((i * c + channel) * kh + rows.tap + a * rows.tap_step) * kw + columns.tap + b * columns.tap_step];
}

template <class T>
GemmPlan plan_forward(const Conv& v, std::int64_t chunk, int tile, const Stream& stream) {
  return plan_gemm<T>("conv2d", v.out_channels(), v.n * v.oh * v.ow, v.in_channels() * v.kh * v.kw, v.groups, chunk,
                      tile, stream);
}
template <class T>
GemmPlan plan_grad_input(const Conv& v, const Class& rows, const Class& columns, std::int64_t chunk, int tile,
                         const Stream& stream) {
  return plan_gemm<T>("conv2d_grad_input", v.in_channels(), v.n * rows.count * columns.count,
                      v.out_channels() * rows.taps * columns.taps, v.groups, chunk, tile, stream);
}
template <class T>
GemmPlan plan_grad_weight(const Conv& v, std::int64_t chunk, int tile, const Stream& stream) {
  return plan_gemm<T>("conv2d_grad_weight", v.out_channels(), v.in_channels() * v.kh * v.kw, v.n * v.oh * v.ow,
                      v.groups, chunk, tile, stream);
}

// Whether tiles would be mostly empty; a test that asks for a tile gets it.
bool few_rows_of(const GemmPlan& plan, int tile) { return tile == 0 && plan.gemm.m <= few_most; }
bool few_outputs_of(const GemmPlan& plan, int tile) {
  return few_rows_of(plan, tile) && std::int64_t{plan.gemm.m} * plan.gemm.n <= 64;
}

std::int64_t work_of(const GemmPlan& plan) { return plan.levels_size + plan.parts_size; }

// f(rows, columns) for each class of inputs
template <class F>
void each_class(const Conv& v, const F& f) {
  for (const Class& rows : classes(v.h, v.kh, v.stride[0], v.padding[0], v.dilation[0]))
    for (const Class& columns : classes(v.w, v.kw, v.stride[1], v.padding[1], v.dilation[1])) f(rows, columns);
}

}  // namespace

template <class T>
std::int64_t conv2d_work(const Sizes& sizes, std::int64_t chunk, int tile, const Stream& stream) {
  return work_of(plan_forward<T>(Conv("conv2d", sizes), chunk, tile, stream));
}

template <class T>
void conv2d(Address x, Address w, Address bias, Address y, Address work, const Sizes& sizes, std::int64_t chunk,
            int tile, const Stream& stream) {
  const Conv v("conv2d", sizes);
  const std::int64_t area = v.oh * v.ow, k = v.in_channels() * v.kh * v.kw;
  const Strided<T> a("conv2d", w, {v.groups}, {v.out_channels() * k}, v.out_channels(), k, 1);
  const Windows<T> b = {images<T>(x, v.c, v.groups, v.h, v.w), window_of(v)};
  const ImageRows<T> c = {out<T>(y),
                          in<T>(bias),
                          v.out_channels() * area,
                          v.o * area,
                          area,
                          narrow(v.out_channels()),
                          narrow(v.ow),
                          Divide(narrow(area)),
                          Divide(narrow(v.ow)),
                          {1, 1},
                          {0, 0},
                          y % 16 == 0 && area % static_cast<std::int64_t>(16 / sizeof(T)) == 0};
  const GemmPlan plan = plan_forward<T>(v, chunk, tile, stream);
  if (few_rows_of(plan, tile))
    run_few_rows<T>("conv2d", plan.gemm, {in<T>(w), v.out_channels() * k, k, 1}, b, c, stream);
  else
    run_gemm<T>("conv2d", plan, a, b, c, work, stream);
}

// The weights that one class sees, then what its product needs.
template <class T>
std::int64_t conv2d_grad_input_work(const Sizes& sizes, std::int64_t chunk, int tile, const Stream& stream) {
  const Conv v("conv2d_grad_input", sizes);
  std::int64_t most = 0;
  each_class(v, [&](const Class& rows, const Class& columns) {
    most = std::max(most, work_of(plan_grad_input<T>(v, rows, columns, chunk, tile, stream)));
  });
  return most + 16 / sizeof(T) + v.o * v.in_channels() * v.kh * v.kw;
}

template <class T>
void conv2d_grad_input(Address grad, Address w, Address y, Address work, const Sizes& sizes, std::int64_t chunk,
                       int tile, const Stream& stream) {
  constexpr auto op = "conv2d_grad_input";
  constexpr std::int64_t vector = 16 / sizeof(T);
  const Conv v(op, sizes);
  const std::int64_t area = v.h * v.w;
  each_class(v, [&](const Class& rows, const Class& columns) {
    const GemmPlan plan = plan_grad_input<T>(v, rows, columns, chunk, tile, stream);
    const std::int64_t count = v.groups * plan.gemm.k * v.in_channels();
    const Address packed = work + ceil_div(work_of(plan), vector) * 16;  // aligned
    launch(op, pack<T>, {ceil_div(count, threads)}, threads, 0, stream, in<T>(w), out<T>(packed), rows, columns,
           v.in_channels(), v.kh, v.kw, count);
    const Strided<T> a(op, packed, {v.groups}, {plan.gemm.k * v.in_channels()}, v.in_channels(), 1, v.in_channels());
    const WindowShape window = {Divide(narrow(rows.count * columns.count)),
                                Divide(narrow(columns.count)),
                                Divide(narrow(rows.taps * columns.taps)),
                                Divide(narrow(columns.taps)),
                                {1, 1},
                                {narrow(-rows.step), narrow(-columns.step)},
                                {narrow(rows.start), narrow(columns.start)}};
    const Windows<T> b = {images<T>(grad, v.o, v.groups, v.oh, v.ow), window};
    const ImageRows<T> c = {out<T>(y),
                            nullptr,
                            v.in_channels() * area,
                            v.c * area,
                            area,
                            narrow(v.in_channels()),
                            narrow(v.w),
                            window.area,
                            window.width,
                            {narrow(v.stride[0]), narrow(v.stride[1])},
                            {narrow(rows.first), narrow(columns.first)},
                            v.stride[0] == 1 && v.stride[1] == 1 && y % 16 == 0 && area % vector == 0};
    if (few_rows_of(plan, tile))
      run_few_rows<T>(op, plan.gemm, {in<T>(packed), plan.gemm.k * v.in_channels(), 1, v.in_channels()}, b, c, stream);
    else
      run_gemm<T>(op, plan, a, b, c, work, stream);
  });
}

template <class T>
std::int64_t conv2d_grad_weight_work(const Sizes& sizes, std::int64_t chunk, int tile, const Stream& stream) {
  const GemmPlan plan = plan_grad_weight<T>(Conv("conv2d_grad_weight", sizes), chunk, tile, stream);
  if (!few_outputs_of(plan, tile)) return work_of(plan);
  const Gemm gemm = few_outputs_gemm(plan.gemm);
  return std::int64_t{gemm.parts} * gemm.batch * gemm.m * gemm.n;
}

template <class T>
void conv2d_grad_weight(Address grad, Address x, Address y, Address work, const Sizes& sizes, std::int64_t chunk,
                        int tile, const Stream& stream) {
  const Conv v("conv2d_grad_weight", sizes);
  const Channels<T> a = {images<T>(grad, v.o, v.groups, v.oh, v.ow), Divide(narrow(v.oh * v.ow))};
  const WindowTaps<T> b = {images<T>(x, v.c, v.groups, v.h, v.w), window_of(v)};
  const Rows<T> c(y, 0, v.out_channels(), v.in_channels() * v.kh * v.kw);
  const GemmPlan plan = plan_grad_weight<T>(v, chunk, tile, stream);
  if (few_outputs_of(plan, tile))
    run_few_outputs<T>("conv2d_grad_weight", few_outputs_gemm(plan.gemm), a, b, c, out<T>(work), stream);
  else
    run_gemm<T>("conv2d_grad_weight", plan, a, b, c, work, stream);
}

#define REPDL_CONV2D(T)                                                                                    \
  template std::int64_t conv2d_work<T>(const Sizes&, std::int64_t, int, const Stream&);                    \
  template std::int64_t conv2d_grad_input_work<T>(const Sizes&, std::int64_t, int, const Stream&);         \
  template std::int64_t conv2d_grad_weight_work<T>(const Sizes&, std::int64_t, int, const Stream&);        \
  template void conv2d<T>(Address, Address, Address, Address, Address, const Sizes&, std::int64_t, int,    \
                          const Stream&);                                                                  \
  template void conv2d_grad_input<T>(Address, Address, Address, Address, const Sizes&, std::int64_t, int,  \
                                     const Stream&);                                                       \
  template void conv2d_grad_weight<T>(Address, Address, Address, Address, const Sizes&, std::int64_t, int, \
                                      const Stream&);
REPDL_CONV2D(float)
REPDL_CONV2D(double)

}  // namespace repdl::cuda
