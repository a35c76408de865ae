// The weight gradient of conv2d (conv2d.md).
//
//   for o < O, j < C * KH * KW:  (N, O, P), (N, C, H, W) -> (O, C, KH, KW)
//     dW[o, j] = dot over k = (n, p) of G[o, k] and X[k, j]
//
// Images are turned to (H, W, C) first. The columns j may come in any order, since only k
// is ordered: in the order (kh, kw, c) a row of X is a few contiguous runs of an image.
#include <algorithm>
#include <vector>

#include "conv/conv2d.hpp"
#include "conv/depthwise_grad_weight.hpp"
#include "conv/padded_nhwc.hpp"
#include "conv/register_grad_weight.hpp"
#include "gemm/split_k.hpp"

namespace repdl::cpu {
namespace {

// Columns j packed, for runs that are much shorter than vectors.
struct RunPacker {
  RunOperand runs;  // with panels as long as the runs

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
      pieces[n_pieces++] = {runs.at(j / runs.length) + inside, j - first, n};
      longest = std::max(longest, n);
      j += n;
    }
    // Columns that are no outputs: the end of the last vector holds anything, the rest zeros.
    const std::int64_t end = pieces[n_pieces - 1].count + Vec::width - 1;
    const std::int64_t clear = pieces[n_pieces - 1].at + end / Vec::width * Vec::width;
    // Whole vectors, or halves: what is written too far is the next piece's place.
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
        const std::int64_t at = runs.offset[k0 + k];
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

// Rows of C in the order (kh, kw, c), back to (c, kh, kw).
void reorder(const float* rows, std::int64_t count, const Geometry& g, float* out) {
  const std::int64_t c = g.group_c(), taps = g.kh * g.kw;
  float* turned = scratch(slot_user + 1, c * taps + pack_slack);
  for (std::int64_t o = 0; o < count; ++o) {
    StridedPacker::transpose_pack(rows + o * c * taps, c, taps, static_cast<int>(taps), c, turned);
    std::copy(turned, turned + c * taps, out + o * c * taps);
  }
}

void conv2d_grad_weight(const Tensor& grads, const Tensor& inputs, Ints kernel_size, Ints stride, Ints padding,
                        Ints dilation, std::int64_t groups, const Contract& contract, const Tensor& grad_weight,
                        const Run& run) {
  const Geometry g = geometry(inputs, grads, kernel_size.begin(), stride, padding, dilation, groups);
  const float *grad = grads.as<float>(), *input = inputs.as<float>();
  float* output = grad_weight.as<float>();
  std::int64_t chunk = contract.dot_chunk;
  const int threads = run.threads;
  const std::int64_t positions = g.oh * g.ow, K = g.n * positions, m = g.group_o(), c = g.group_c();
  const std::int64_t columns = c * g.kh * g.kw;
  if (g.o == 0 || columns == 0) return;
  if (c == 1 && m == 1 && g.c >= Vec::width && K > 0)
    return depthwise_grad_weight(grad, input, output, g, chunk, threads);

  // Pixels of a kernel of one are packed from where they lie.
  const bool direct = g.kh == 1 && g.kw == 1 && g.stride_h == 1 && g.stride_w == 1 && g.pad_h == 0 && g.pad_w == 0;
  PaddedNhwc shape(g, c);
  const std::int64_t of_group = g.n * shape.floats();
  const Storage storage = allocate(direct ? 0 : g.groups * of_group);
  if (!direct)
    parallel_for(g.groups * g.n, 1, threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t group = i % g.groups, n = i / g.groups;
        shape.fill(input + i * c * g.h * g.w, g.h, g.w, storage.get() + group * of_group + n * shape.floats());
      }
    });

  // Threads take groups; where there are few, the terms too, or slices of the outputs of a group.
  if (!chunk) chunk = std::max<std::int64_t>(K, 1);
  const std::int64_t of_a_group = threads / g.groups, outputs = g.o * columns;
  const SplitK parts(K, chunk, outputs, of_a_group);
  const std::int64_t slices =
      parts.count > 1 ? 1 : std::clamp<std::int64_t>(m / 8, 1, std::max<std::int64_t>(of_a_group, 1));
  const auto vectors = [](std::int64_t n) { return (n + Vec::width - 1) / Vec::width; };
  const std::int64_t padded = vectors(outputs) * Vec::width;
  const Storage results = allocate(parts.count > 1 ? parts.count * padded : 0);
  // Cycles a term, about: in place the end of a run's last vector is wasted; packed, every
  // vector of a run is copied.
  const std::int64_t length = shape.columns_of(g, nullptr, 1 << 30).length, count = columns / length;
  const std::int64_t pieces = count * vectors(length), most = (m + slices - 1) / slices;  // rows of a slice
  const std::int64_t packed = vectors(columns) * most + 3 * pieces, in_place = pieces * std::max<std::int64_t>(most, 8);
  const RegisterShape register_grad_weight{count, length};
  const bool is_short =
      !direct && register_grad_weight.fits() && register_grad_weight.vectors() * most < std::min(packed, in_place);
  const std::vector<std::int64_t> offset = direct || is_short ? std::vector<std::int64_t>() : shape.offsets(g);

  // Rows `first` and on of a group, over the terms of a part.
  const auto product = [&](std::int64_t group, std::int64_t first, std::int64_t rows, std::int64_t part) {
    const std::int64_t start = parts.first(part), terms = parts.size(part);
    const PositionsPacker pack_a{grad + (group * m + first) * positions, g.o * positions, positions, start};
    float* out = (parts.count > 1 ? results.get() + part * padded : output) + (group * m + first) * columns;
    if (parts.count > 1) REPDL_ROUTE("conv2d_grad_weight: parts of the terms");
    if (slices > 1) REPDL_ROUTE("conv2d_grad_weight: slices of the filters");
    if (direct) {
      REPDL_ROUTE("conv2d_grad_weight: kernel of one pixel");
      const PositionsPacker pack_b{input + group * c * positions, g.c * positions, positions, start};
      return gemm(rows, columns, terms, chunk, pack_a, pack_b, Output{out, columns}, Tiling(rows, columns, terms));
    }
    PaddedNhwc frames = shape;
    frames.data = storage.get() + group * of_group;
    float* result = g.kh * g.kw == 1 ? out : scratch(slot_user, rows * columns);
    const std::int64_t* places = is_short ? nullptr : offset.data() + start;
    const RunOperand runs = frames.columns_of(g, places, 1 << 30);
    if (is_short) {
      register_grad_weight_rows(pack_a.images, runs, register_grad_weight, frames, g, start, terms, chunk, rows,
                                result);
    } else if (in_place <= packed) {
      REPDL_ROUTE("conv2d_grad_weight: runs in place");
      const Tiling tile(rows, columns, terms, runs.length);
      const RunOperand pack_b = frames.columns_of(g, places, tile.nv * Vec::width);
      gemm(rows, columns / runs.length * pack_b.panels() * pack_b.width, terms, chunk, pack_a, pack_b,
           Output{result, columns}, tile);
    } else {
      gemm(rows, columns, terms, chunk, pack_a, RunPacker{runs}, Output{result, columns}, Tiling(rows, columns, terms));
    }
    if (result != out) reorder(result, rows, g, out);
  };
  parallel_for(parts.count * g.groups * slices, 1, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t group = i / slices % g.groups, slice = i % slices, first = m * slice / slices;
      if (const std::int64_t rows = m * (slice + 1) / slices - first; rows > 0)
        product(group, first, rows, i / slices / g.groups);
    }
  });
  if (parts.count > 1) join_parts(results.get(), padded, parts.count, outputs, output, threads);
}

const AddKernel conv2d_grad_weight_kernel =
    add_kernel<&conv2d_grad_weight>("conv2d_grad_weight", DType::float32, Layout::rows);

}  // namespace
}  // namespace repdl::cpu
