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
// Where a group has very few channels (depthwise), direct_conv.hpp computes the same without tiles.
#include "conv/direct_conv.hpp"
#include "conv/images.hpp"
#include "conv/small_windows.hpp"
#include "gemm/gemm_run.hpp"
#include "gemm/strided.hpp"
#include "repdl/shape/convolution.hpp"

namespace repdl::cuda {
inline namespace conv2d_cu {

// Raises for sizes that do not fit into the kernels' integers.
void check_sizes(const char* op, const Geometry& v) {
  constexpr std::int64_t most = 2147483647;
  const std::int64_t padded = (v.h + 2 * v.pad_h) * (v.w + 2 * v.pad_w), channels = v.group_c(), filters = v.group_o();
  for (const std::int64_t count :
       {channels * v.h * v.w, filters * v.oh * v.ow, channels * v.kh * v.kw, filters * v.kh * v.kw, v.n * v.oh * v.ow,
        v.n * v.h * v.w, padded, v.stride_h, v.stride_w})
    if (count > most)
      throw std::runtime_error(std::string(op) +
                               ": one group of an image or of the kernel, or the positions of all "
                               "images, are " +
                               std::to_string(count) + " elements, expected at most " + std::to_string(most) +
                               "; use smaller tensors");
}

template <class T>
Images<T> images(const T* address, std::int64_t channels, std::int64_t groups, std::int64_t height,
                 std::int64_t width) {
  return {address, static_cast<int>(channels / groups), static_cast<int>(height), static_cast<int>(width),
          channels * height * width};
}

int narrow(std::int64_t x) { return static_cast<int>(x); }  // check_sizes has checked it

WindowShape window_of(const Geometry& v) {
  return {FastDivmod32(narrow(v.oh * v.ow)),        FastDivmod32(narrow(v.ow)),
          FastDivmod32(narrow(v.kh * v.kw)),        FastDivmod32(narrow(v.kw)),
          {narrow(v.stride_h), narrow(v.stride_w)}, {narrow(v.dilation_h), narrow(v.dilation_w)},
          {narrow(-v.pad_h), narrow(-v.pad_w)}};
}

// Along one side of the input: every stride-th element from `first` on, `count` of them, sees
// the taps tap + t * tap_step, t < taps; tap t of element i is output i - t * step + start.
struct StridePhase {
  std::int64_t first, count, tap, tap_step, taps, step, start;
};
std::vector<StridePhase> stride_phases(std::int64_t size, std::int64_t kernel, std::int64_t stride,
                                       std::int64_t padding, std::int64_t dilation) {
  std::vector<StridePhase> result;
  for (std::int64_t first = 0; first < std::min(stride, size); ++first) {
    StridePhase one = {first, ceil_div(size - first, stride), 0, 0, 0, 0, 0};
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
__global__ void __launch_bounds__(threads) pack(const T* w, T* packed, StridePhase rows, StridePhase columns,
                                                std::int64_t c, std::int64_t kh, std::int64_t kw, std::int64_t count) {
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
GemmPlan plan_forward(const Geometry& v, std::int64_t chunk, int tile, const Stream& stream) {
  return plan_gemm<T>("conv2d", v.group_o(), v.n * v.oh * v.ow, v.group_c() * v.kh * v.kw, v.groups, chunk, tile,
                      stream);
}
template <class T>
GemmPlan plan_grad_input(const Geometry& v, const StridePhase& rows, const StridePhase& columns, std::int64_t chunk,
                         int tile, const Stream& stream) {
  return plan_gemm<T>("conv2d_grad_input", v.group_c(), v.n * rows.count * columns.count,
                      v.group_o() * rows.taps * columns.taps, v.groups, chunk, tile, stream);
}
template <class T>
GemmPlan plan_grad_weight(const Geometry& v, std::int64_t chunk, int tile, const Stream& stream) {
  return plan_gemm<T>("conv2d_grad_weight", v.group_o(), v.group_c() * v.kh * v.kw, v.n * v.oh * v.ow, v.groups, chunk,
                      tile, stream);
}

// Whether tiles would be mostly empty; a test that asks for a tile gets it.
bool takes_direct_rows(const GemmPlan& plan, int tile) { return tile == 0 && plan.gemm.m <= max_direct_rows; }
bool takes_direct_outputs(const GemmPlan& plan, int tile) {
  return takes_direct_rows(plan, tile) && std::int64_t{plan.gemm.m} * plan.gemm.n <= 64;
}

// f(rows, columns) for each class of inputs
template <class F>
void each_phase(const Geometry& v, const F& f) {
  for (const StridePhase& rows : stride_phases(v.h, v.kh, v.stride_h, v.pad_h, v.dilation_h))
    for (const StridePhase& columns : stride_phases(v.w, v.kw, v.stride_w, v.pad_w, v.dilation_w)) f(rows, columns);
}

template <class T>
void conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, Ints stride, Ints padding, Ints dilation,
            std::int64_t groups, const Contract& contract, const Tensor& output, const ExecContext& exec) {
  const Stream stream = stream_of(exec);
  const int tile = wanted_tile();
  const Geometry v = geometry(input, output, weight.size + 2, stride, padding, dilation, groups);
  check_sizes(exec.op, v);
  const std::int64_t area = v.oh * v.ow, k = v.group_c() * v.kh * v.kw;
  const T* w = weight.as<T>();
  T* y = output.as<T>();
  const Strided<T> a(exec.op, w, {v.groups}, {v.group_o() * k}, v.group_o(), k, 1);
  const Windows<T> b = {images<T>(input.as<T>(), v.c, v.groups, v.h, v.w), window_of(v)};
  const ImageRows<T> c = {y,
                          bias.as<T>(),
                          v.group_o() * area,
                          v.o * area,
                          area,
                          narrow(v.group_o()),
                          narrow(v.ow),
                          FastDivmod32(narrow(area)),
                          FastDivmod32(narrow(v.ow)),
                          {1, 1},
                          {0, 0},
                          is_aligned(y) && area % static_cast<std::int64_t>(16 / sizeof(T)) == 0};
  const GemmPlan plan = plan_forward<T>(v, contract.dot_chunk, tile, stream);
  if (takes_direct_rows(plan, tile))
    run_direct_rows<T>(exec.op, plan.gemm, {w, v.group_o() * k, k, 1}, b, c, stream);
  else
    with_windows(b, [&](const auto& windows) {
      run_gemm<T>(exec.op, plan, a, windows, c, exec.workspace<T>(plan.work()), stream);
    });
}

// The weights that one class sees, then what its product needs: memory for the largest serves all.
template <class T>
void conv2d_grad_input(const Tensor& grad, const Tensor& weight, Ints, Ints stride, Ints padding, Ints dilation,
                       std::int64_t groups, const Contract& contract, const Tensor& output, const ExecContext& exec) {
  constexpr std::int64_t vector = 16 / sizeof(T);
  const Stream stream = stream_of(exec);
  const int tile = wanted_tile();
  const char* op = exec.op;
  const Geometry v = geometry(output, grad, weight.size + 2, stride, padding, dilation, groups);
  check_sizes(op, v);
  const std::int64_t area = v.h * v.w, chunk = contract.dot_chunk;
  T* y = output.as<T>();
  std::int64_t most = 0;
  each_phase(v, [&](const StridePhase& rows, const StridePhase& columns) {
    most = std::max(most, plan_grad_input<T>(v, rows, columns, chunk, tile, stream).work());
  });
  T* work = exec.workspace<T>(most);
  T* packed = exec.workspace<T>(weight.count());
  each_phase(v, [&](const StridePhase& rows, const StridePhase& columns) {
    const GemmPlan plan = plan_grad_input<T>(v, rows, columns, chunk, tile, stream);
    const std::int64_t count = v.groups * plan.gemm.k * v.group_c();
    launch(op, pack<T>, {ceil_div(count, threads)}, threads, 0, stream, weight.as<T>(), packed, rows, columns,
           v.group_c(), v.kh, v.kw, count);
    const Strided<T> a(op, packed, {v.groups}, {plan.gemm.k * v.group_c()}, v.group_c(), 1, v.group_c());
    const WindowShape window = {FastDivmod32(narrow(rows.count * columns.count)),
                                FastDivmod32(narrow(columns.count)),
                                FastDivmod32(narrow(rows.taps * columns.taps)),
                                FastDivmod32(narrow(columns.taps)),
                                {1, 1},
                                {narrow(-rows.step), narrow(-columns.step)},
                                {narrow(rows.start), narrow(columns.start)}};
    const Windows<T> b = {images<T>(grad.as<T>(), v.o, v.groups, v.oh, v.ow), window};
    const ImageRows<T> c = {y,
                            nullptr,
                            v.group_c() * area,
                            v.c * area,
                            area,
                            narrow(v.group_c()),
                            narrow(v.w),
                            window.area,
                            window.width,
                            {narrow(v.stride_h), narrow(v.stride_w)},
                            {narrow(rows.first), narrow(columns.first)},
                            v.stride_h == 1 && v.stride_w == 1 && is_aligned(y) && area % vector == 0};
    if (takes_direct_rows(plan, tile))
      run_direct_rows<T>(op, plan.gemm, {packed, plan.gemm.k * v.group_c(), 1, v.group_c()}, b, c, stream);
    else
      with_windows(b, [&](const auto& windows) { run_gemm<T>(op, plan, a, windows, c, work, stream); });
  });
}

template <class T>
void conv2d_grad_weight(const Tensor& grad, const Tensor& input, Ints kernel_size, Ints stride, Ints padding,
                        Ints dilation, std::int64_t groups, const Contract& contract, const Tensor& output,
                        const ExecContext& exec) {
  const Stream stream = stream_of(exec);
  const int tile = wanted_tile();
  const Geometry v = geometry(input, grad, kernel_size.begin(), stride, padding, dilation, groups);
  check_sizes(exec.op, v);
  const Channels<T> a = {images<T>(grad.as<T>(), v.o, v.groups, v.oh, v.ow), FastDivmod32(narrow(v.oh * v.ow))};
  const Images<T> x = images<T>(input.as<T>(), v.c, v.groups, v.h, v.w);
  const WindowTaps<T> b = {x, window_of(v)};
  const Rows<T> c(output.as<T>(), {}, v.group_o(), v.group_c() * v.kh * v.kw);
  const GemmPlan plan = plan_grad_weight<T>(v, contract.dot_chunk, tile, stream);
  if (takes_direct_outputs(plan, tile)) {
    const Gemm gemm = direct_outputs_gemm(plan.gemm);
    T* splits = exec.workspace<T>(std::int64_t{gemm.splits} * gemm.batch * gemm.m * gemm.n);
    run_direct_outputs<T>(exec.op, gemm, a, b, c, splits, stream);
  } else {
    T* work = exec.workspace<T>(plan.work());
    if (every_pixel(b.window, x))  // taps are channels
      run_gemm<T>(exec.op, plan, a, Channels<T>{x, a.area}, c, work, stream);
    else
      run_gemm<T>(exec.op, plan, a, b, c, work, stream);
  }
}

const AddKernel conv2d_kernels = add_kernels<&conv2d<float>, &conv2d<double>>("conv2d", Layout::rows);
const AddKernel conv2d_grad_input_kernels =
    add_kernels<&conv2d_grad_input<float>, &conv2d_grad_input<double>>("conv2d_grad_input", Layout::rows);
const AddKernel conv2d_grad_weight_kernels =
    add_kernels<&conv2d_grad_weight<float>, &conv2d_grad_weight<double>>("conv2d_grad_weight", Layout::rows);

}  // namespace conv2d_cu
}  // namespace repdl::cuda
