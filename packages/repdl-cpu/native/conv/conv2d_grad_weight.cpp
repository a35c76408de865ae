// The weight gradient of conv2d (conv2d.md).
//
//   for o < O, j < C * KH * KW:  (N, O, P), (N, C, H, W) -> (O, C, KH, KW)
//     dW[o, j] = dot over k = (n, p) of G[o, k] and X[k, j]
//
// Images are transposed to (H, W, C) first. The columns j may come in any order, since only k
// is ordered: in the order (kh, kw, c) a row of X is a few contiguous runs of an image.
#include <algorithm>
#include <vector>

#include "base/scratch.hpp"
#include "base/threads.hpp"
#include "conv/depthwise_grad_weight.hpp"
#include "conv/grad_weight_plan.hpp"
#include "gemm/gemm.hpp"

namespace repdl::cpu {
namespace {

// Columns j packed, for runs that are much shorter than vectors.
struct RunPacker {
  const float* data;
  const std::int64_t* offset;
  RunLayout runs;

  static constexpr bool reads_along_panels() { return false; }

  void pack(std::int64_t first, std::int64_t count, int width, std::int64_t k0, std::int64_t kc, float* dst) const {
    struct Piece {
      const float* source;
      std::int64_t at, count;
    };
    Piece pieces[4 * 64];
    int n_pieces = 0;
    std::int64_t longest = 0;
    for (std::int64_t j = first; j < first + count;) {
      const std::int64_t inside = j % runs.length, n = std::min(runs.length - inside, first + count - j);
      pieces[n_pieces++] = {data + runs.start(j / runs.length) + inside, j - first, n};
      longest = std::max(longest, n);
      j += n;
    }
    const std::int64_t* const terms = offset + k0;  // which no store can reach
    // Columns that are no outputs: the end of the last vector holds anything, the rest zeros.
    const std::int64_t end = pieces[n_pieces - 1].count + Vec::width - 1;
    const std::int64_t clear = pieces[n_pieces - 1].at + end / Vec::width * Vec::width;
    // Whole vectors, or halves: the overshoot is overwritten by the next piece.
    const auto copy = [&](const float* from, float* to, std::int64_t n) {
      for (std::int64_t i = 0; i < n; i += Vec::width) Vec::load(from + i).store(to + i);
    };
    constexpr int half = Vec::width / 2;
    const auto copy_half = [&](const float* from, float* to, std::int64_t) {
      std::memcpy(to, from, half * sizeof(float));
    };
    const auto copy_one = [&](const float* from, float* to, std::int64_t) { Vec::load(from).store(to); };
    const auto rows = [&](const auto& piece_copy) {
      for (std::int64_t k = 0; k < kc; ++k) {
        const std::int64_t at = terms[k];
        for (int p = 0; p < n_pieces; ++p)
          piece_copy(pieces[p].source + at, dst + k * width + pieces[p].at, pieces[p].count);
        for (std::int64_t j = clear; j < width; j += Vec::width) Vec::zero().store(dst + k * width + j);
      }
    };
    if (longest <= half) {
      REPDL_ROUTE("conv2d_grad_weight: runs of half a vector");
      rows(copy_half);
    } else if (longest <= Vec::width) {
      REPDL_ROUTE("conv2d_grad_weight: runs of a vector");
      rows(copy_one);
    } else {
      REPDL_ROUTE("conv2d_grad_weight: long runs, packed");
      rows(copy);
    }
  }
};

// A[o, k] = grad[n, o, p] with start + k = (n, p); and B likewise where the kernel is one pixel.
struct PositionsPacker {
  const float* images;  // of the group, first image
  std::int64_t image_stride, positions, start;

  static constexpr bool reads_along_panels() { return false; }

  void pack(std::int64_t first, std::int64_t count, int width, std::int64_t k0, std::int64_t kc, float* dst) const {
    for (std::int64_t k = start + k0, end = k + kc; k < end;) {
      const std::int64_t n = k / positions, p = k % positions;
      const std::int64_t length = std::min(positions - p, end - k);
      const float* src = images + n * image_stride + first * positions + p;
      StridedPacker::transpose_pack(src, positions, count, width, length, dst + (k - start - k0) * width);
      k += length;
    }
  }
};

// Filters in the order (kh, kw, c), back to (c, kh, kw).
void to_channels_first(const float* filters, std::int64_t count, const Geometry& g, float* out) {
  const std::int64_t c = g.group_c(), taps = g.kh * g.kw;
  const Scratch<float> transposed(c * taps + pack_slack);
  for (std::int64_t o = 0; o < count; ++o) {
    StridedPacker::transpose_pack(filters + o * c * taps, c, taps, static_cast<int>(taps), c, transposed.data());
    std::copy_n(transposed.data(), c * taps, out + o * c * taps);
  }
}

class GradWeight {
 public:
  GradWeight(const float* grad, const float* input, float* output, const Geometry& g, std::int64_t dot_chunk,
             int threads)
      : grad_(grad), input_(input), output_(output), g_(g), images_(g, g.group_c()),
        chunk_(dot_chunk ? dot_chunk : std::max<std::int64_t>(GradWeightPlan::terms(g), 1)), threads_(threads),
        plan_(g, images_, chunk_, threads), columns_(GradWeightPlan::columns(g)), group_floats_(g.n * images_.floats()),
        padded_(plan_.pads() ? g.groups * group_floats_ : 0),
        split_floats_((g.o * columns_ + Vec::width - 1) / Vec::width * Vec::width),
        splits_(plan_.split.count > 1 ? plan_.split.count * split_floats_ : 0) {}

  void run() {
    if (plan_.route == GradWeightRoute::depthwise)
      return depthwise_grad_weight(grad_, input_, output_, g_, chunk_, threads_);
    if (plan_.pads()) pad_images();
    if (plan_.route == GradWeightRoute::unpacked || plan_.route == GradWeightRoute::packed)
      offset_ = images_.offsets(g_);
    const SplitK& split = plan_.split;
    if (split.count > 1) REPDL_ROUTE("conv2d_grad_weight: split k");
    if (plan_.slices > 1) REPDL_ROUTE("conv2d_grad_weight: slices of the filters");
    const std::int64_t m = g_.group_o(), slices = plan_.slices;
    parallel_for(split.count * g_.groups * slices, 1, threads_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t group = i / slices % g_.groups, slice = i % slices, first = m * slice / slices;
        if (const std::int64_t count = m * (slice + 1) / slices - first; count > 0)
          filters(group, first, count, i / slices / g_.groups);
      }
    });
    if (split.count > 1) join_splits(splits_.data(), split_floats_, split.count, g_.o * columns_, output_, threads_);
  }

 private:
  void pad_images() const {
    const std::int64_t image = g_.group_c() * g_.h * g_.w;
    parallel_for(g_.groups * g_.n, 1, threads_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        float* to = padded_.data() + i % g_.groups * group_floats_ + i / g_.groups * images_.floats();
        images_.fill(input_ + i * image, g_.h, g_.w, to);
      }
    });
  }

  // Filters first .. first + count of a group, over the terms of a split.
  void filters(std::int64_t group, std::int64_t first, std::int64_t count, std::int64_t split) const {
    const std::int64_t positions = g_.oh * g_.ow, filter = group * g_.group_o() + first;
    const std::int64_t start = plan_.split.first(split), terms = plan_.split.size(split);
    const PositionsPacker pack_a{grad_ + filter * positions, g_.o * positions, positions, start};
    float* out = (plan_.split.count > 1 ? splits_.data() + split * split_floats_ : output_) + filter * columns_;
    if (plan_.route == GradWeightRoute::pointwise) {
      REPDL_ROUTE("conv2d_grad_weight: kernel of one pixel");
      const std::int64_t c = g_.group_c();
      const PositionsPacker pack_b{input_ + group * c * positions, g_.c * positions, positions, start};
      return gemm(count, columns_, terms, chunk_, pack_a, pack_b, Output{out, columns_},
                  Tiling(count, columns_, terms));
    }
    const bool in_order = g_.kh * g_.kw == 1;
    const Scratch<float> reordered(in_order ? 0 : count * columns_);
    float* result = in_order ? out : reordered.data();
    PaddedNhwc images = images_;
    images.data = padded_.data() + group * group_floats_;
    const std::int64_t* offset = offset_.empty() ? nullptr : offset_.data() + start;
    const RunLayout runs = images_.run_layout(g_);
    if (plan_.route == GradWeightRoute::in_registers) {
      register_grad_weight(pack_a.images, runs, plan_.runs, images, g_, start, terms, chunk_, count, result);
    } else if (plan_.route == GradWeightRoute::unpacked) {
      REPDL_ROUTE("conv2d_grad_weight: runs in place");
      const Tiling tile(count, columns_, terms, runs.length);
      const RunOperand pack_b(images.data, offset, runs, static_cast<int>(tile.nr()), Vec::width);
      gemm(count, pack_b.extent(plan_.runs.count), terms, chunk_, pack_a, pack_b, Output{result, columns_}, tile);
    } else {
      gemm(count, columns_, terms, chunk_, pack_a, RunPacker{images.data, offset, runs}, Output{result, columns_},
           Tiling(count, columns_, terms));
    }
    if (!in_order) to_channels_first(result, count, g_, out);
  }

  const float *grad_, *input_;
  float* output_;
  const Geometry& g_;
  PaddedNhwc images_;
  std::int64_t chunk_;
  int threads_;
  GradWeightPlan plan_;
  std::int64_t columns_, group_floats_;
  Scratch<float> padded_;
  std::int64_t split_floats_;
  Scratch<float> splits_;             // (split, o, column)
  std::vector<std::int64_t> offset_;  // of the terms
};

void conv2d_grad_weight(const Tensor& grads, const Tensor& inputs, Ints kernel_size, Ints stride, Ints padding,
                        Ints dilation, std::int64_t groups, const Contract& contract, const Tensor& grad_weight,
                        const ExecContext& exec) {
  const Geometry g = geometry(inputs, grads, kernel_size.begin(), stride, padding, dilation, groups);
  if (g.o == 0 || GradWeightPlan::columns(g) == 0) return;
  GradWeight(grads.as<float>(), inputs.as<float>(), grad_weight.as<float>(), g, contract.dot_chunk, exec.threads).run();
}

const AddKernel conv2d_grad_weight_kernel =
    add_kernel<&conv2d_grad_weight>("conv2d_grad_weight", DType::float32, Layout::rows);

}  // namespace
}  // namespace repdl::cpu
