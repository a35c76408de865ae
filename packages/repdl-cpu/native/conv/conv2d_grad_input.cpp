// The input gradient of conv2d as products of packed weights and padded gradients (conv2d.md).
//
//   for n < N, c < C, p:  (N, O, OH, OW), (O, C, KH, KW) -> (N, C, H, W)
//     dX[n, c, p] = dot over k = (o, kh, kw) of W[k, c] and G[n, k, p], a stride phase of p at a time
#include "conv/image_product.hpp"

namespace repdl::cpu {
namespace {

// One side (rows or columns) of a stride phase of the input gradient: the positions
// first, first + stride, ... of the input, and the taps that exist for them.
struct Phase {
  std::int64_t first, count;
  std::vector<std::int64_t> taps;    // kh ascending
  std::vector<std::int64_t> shifts;  // oh of the phase's first position, a tap each

  Phase(std::int64_t phase, std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
        std::int64_t dilation)
      : first(phase), count(phase < size ? (size - phase + stride - 1) / stride : 0) {
    for (std::int64_t k = 0; k < kernel; ++k) {
      const std::int64_t reach = phase + padding - k * dilation;
      if (reach % stride == 0) {
        taps.push_back(k);
        shifts.push_back(reach / stride);
      }
    }
  }

  // A padded gradient holds every element that a tap can reach, and all `size` others.
  std::int64_t low() const {
    std::int64_t result = 0;
    for (const std::int64_t shift : shifts) result = std::min(result, shift);
    return result;
  }
  std::int64_t high(std::int64_t size) const {
    for (const std::int64_t shift : shifts) size = std::max(size, shift + count);
    return size;
  }
};

// Element (c, k) of the weights of one group, k = (o, tap): `taps` of the kernel's, as listed.
struct TapPacker {
  const float* weight;
  std::int64_t channels, kernel;
  std::vector<std::int64_t> taps;

  static constexpr bool reads_along_panels() { return false; }

  void pack(std::int64_t first, std::int64_t count, int width, std::int64_t k0, std::int64_t kc, float* dst) const {
    const auto used = static_cast<std::int64_t>(taps.size());
    for (std::int64_t k = k0; k < k0 + kc;) {
      const std::int64_t t = k % used, run = used == kernel ? std::min(kernel - t, k0 + kc - k) : 1;
      const float* src = weight + (k / used * channels + first) * kernel + taps[static_cast<std::size_t>(t)];
      StridedPacker{src, kernel, run > 1 ? 1 : 0}.pack(0, count, width, 0, run, dst + (k - k0) * width);
      k += run;
    }
  }
};

// The positions of one phase, rows of the input as `rows`, columns as `columns`.
void phase_grad_input(const float* grad, const float* weight, float* output, const Geometry& g, const Phase& rows,
                      const Phase& columns, std::int64_t chunk, int threads) {
  const std::int64_t o = g.group_o(), m = g.group_c(), area = g.h * g.w, kernel = g.kh * g.kw;
  const std::int64_t positions = rows.count * columns.count;
  const auto axis = [](const Phase& phase, std::int64_t size) {
    return Axis(size, -phase.low(), phase.high(size) - phase.low());
  };
  const PaddedImage padded{o, g.oh, g.ow, axis(rows, g.oh), axis(columns, g.ow)};
  std::vector<std::int64_t> offset, taps;
  for (const std::int64_t kh : rows.taps)
    for (const std::int64_t kw : columns.taps) taps.push_back(kh * g.kw + kw);
  for (std::int64_t i = 0; i < o; ++i)
    for (const std::int64_t y : rows.shifts)
      for (const std::int64_t x : columns.shifts) offset.push_back(padded.at(i, y - rows.low(), x - columns.low()));

  ImageProduct product(g, m, padded, Grid{rows.count, columns.count, padded.columns.total()}, std::move(offset),
                       static_cast<std::int64_t>(taps.size()), chunk);
  for (std::int64_t group = 0; group < g.groups; ++group)
    product.add_weights(TapPacker{weight + group * o * m * kernel, m, kernel, taps});
  const bool whole = g.stride_h == 1 && g.stride_w == 1;
  const auto image = [&](std::int64_t n, std::int64_t group) { return output + (n * g.c + group * m) * area; };
  product.run(
      threads, g.o * g.oh * g.ow,
      [&](std::int64_t n, std::int64_t group) { return grad + (n * g.o + group * o) * g.oh * g.ow; },
      [&](std::int64_t n, std::int64_t count, std::int64_t group, const auto& compute) {
        const Scratch<float> phase(whole ? 0 : count * m * positions);
        Output out{whole ? image(n, group) : phase.data(), positions};
        out.image = positions;
        out.image_stride = whole ? g.c * area : m * positions;
        compute(out);
        if (whole) return;
        REPDL_ROUTE("conv2d_grad_input: phases");
        const float* from = phase.data();
        for (std::int64_t i = 0; i < count * m; ++i)
          for (std::int64_t y = 0; y < rows.count; ++y) {
            float* to = image(n + i / m, group) + i % m * area + (rows.first + y * g.stride_h) * g.w + columns.first;
            for (std::int64_t x = 0; x < columns.count; ++x) to[x * g.stride_w] = *from++;
          }
      });
}

void conv2d_grad_input(const Tensor& grads, const Tensor& weights, Ints, Ints stride, Ints padding, Ints dilation,
                       std::int64_t groups, const Contract& contract, const Tensor& outputs, const ExecContext& exec) {
  const Geometry g = geometry(outputs, grads, weights.size + 2, stride, padding, dilation, groups);
  const float *grad = grads.as<float>(), *weight = weights.as<float>();
  float* output = outputs.as<float>();
  if (g.n == 0 || g.c == 0 || g.h * g.w == 0) return;
  for (std::int64_t phase_h = 0; phase_h < std::min(g.stride_h, g.h); ++phase_h)
    for (std::int64_t phase_w = 0; phase_w < std::min(g.stride_w, g.w); ++phase_w)
      phase_grad_input(grad, weight, output, g, Phase(phase_h, g.h, g.kh, g.stride_h, g.pad_h, g.dilation_h),
                       Phase(phase_w, g.w, g.kw, g.stride_w, g.pad_w, g.dilation_w), contract.dot_chunk, exec.threads);
}

const AddKernel conv2d_grad_input_kernel =
    add_kernel<&conv2d_grad_input>("conv2d_grad_input", DType::float32, Layout::rows);

}  // namespace
}  // namespace repdl::cpu
