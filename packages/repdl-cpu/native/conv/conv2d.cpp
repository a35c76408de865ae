// conv2d as a product of packed weights and padded images (conv2d.md).
//
//   for n < N, o < O, p = (y, x):  (N, C, H, W), (O, C, KH, KW) -> (N, O, OH, OW)
//     out[n, o, p] = dot over k = (c, kh, kw) of W[o, k] and X[n, c, y * stride + kh, x * stride + kw]
#include "conv/image_product.hpp"

namespace repdl::cpu {
namespace {

void conv2d(const Tensor& inputs, const Tensor& weights, const Tensor& biases, Ints stride, Ints padding, Ints dilation,
            std::int64_t groups, const Contract& contract, const Tensor& outputs, const ExecContext& exec) {
  const Geometry g = geometry(inputs, outputs, weights.size + 2, stride, padding, dilation, groups);
  const float *input = inputs.as<float>(), *weight = weights.as<float>(), *bias = biases.as<float>();
  float* output = outputs.as<float>();
  const std::int64_t chunk = contract.dot_chunk;
  const std::int64_t c = g.group_c(), m = g.group_o(), taps = g.kh * g.kw, positions = g.oh * g.ow;
  if (g.n == 0 || g.o == 0 || positions == 0) return;
  const PaddedImage image{c, g.h, g.w, Axis(g.h, g.pad_h, g.h + 2 * g.pad_h, g.stride_h, g.kh, g.dilation_h),
                          Axis(g.w, g.pad_w, g.w + 2 * g.pad_w, g.stride_w, g.kw, g.dilation_w)};
  std::vector<std::int64_t> offset;
  for (std::int64_t i = 0; i < c; ++i)
    for (std::int64_t kh = 0; kh < g.kh; ++kh)
      for (std::int64_t kw = 0; kw < g.kw; ++kw) offset.push_back(image.at(i, kh * g.dilation_h, kw * g.dilation_w));

  ImageProduct product(g, m, image, Grid{g.oh, g.ow, image.columns.total()}, std::move(offset), taps, chunk);
  for (std::int64_t group = 0; group < g.groups; ++group)
    product.add_weights(StridedPacker{weight + group * m * c * taps, c * taps, 1});
  const std::int64_t area = g.h * g.w;
  product.run(
      exec.threads, g.c * area,
      [&](std::int64_t n, std::int64_t group) { return input + (n * g.c + group * c) * area; },
      [&](std::int64_t n, std::int64_t, std::int64_t group, const auto& compute) {
        Output out{output + (n * g.o + group * m) * positions, positions};
        out.image = positions;
        out.image_stride = g.o * positions;
        if (bias) out.row_bias = bias + group * m;
        compute(out);
      });
}

const AddKernel conv2d_kernel = add_kernel<&conv2d>("conv2d", DType::float32, Layout::rows);

}  // namespace
}  // namespace repdl::cpu
