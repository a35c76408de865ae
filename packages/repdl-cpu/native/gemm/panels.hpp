// B packed once, all k of a panel one after the other; each gemm takes a range of columns and a prefix of k.
//
// One row or two would leave most registers empty: their tile goes over several panels, out of as many streams.
#pragma once

#include "gemm/chunk_tree.hpp"
#include "gemm/gemm.hpp"

namespace repdl::cpu {

constexpr int max_panel_rows = 2;

class PrepackedB {
 public:
  // n columns of K terms, in panels of at most so many vectors as a tile of any height has.
  PrepackedB(std::int64_t n, std::int64_t K, std::int64_t vectors)
      : n_(n), K_(K), width_(static_cast<int>(std::min<std::int64_t>(max_vectors(max_rows), vectors)) * Vec::width),
        packed_(count() * width_ * K + pack_slack) {}

  PrepackedB(const StridedPacker& packer, std::int64_t n, std::int64_t K)
      : PrepackedB(n, K, (n + Vec::width - 1) / Vec::width) {
    pack(packer, 0, count());
  }

  int width() const { return width_; }
  std::int64_t count() const { return (n_ + width_ - 1) / width_; }

  // Panels begin to end: nothing outside of them is written.
  template <class Packer>
  void pack(const Packer& packer, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t j = begin * width_; j < std::min(n_, end * width_); j += width_)
      packer.pack(j, std::min<std::int64_t>(width_, n_ - j), width_, 0, K_, packed_.data() + j * K_);
  }

  // C (m, n) of the n columns from the first of a panel on, and K terms.
  void multiply(std::int64_t m, std::int64_t n, std::int64_t K, std::int64_t chunk, const StridedPacker& a,
                const Output& out, std::int64_t first = 0) const {
    std::int64_t done = 0;
    if (m <= max_panel_rows && width_ == tile_vectors * Vec::width)
      done = m == 1 ? few_rows<1>(n, K, chunk, a, out, first) : few_rows<2>(n, K, chunk, a, out, first);
    if (done == n) return;
    Tiling tile(m, n - done, K, 0, width_ / Vec::width);
    tile.nv = width_ / Vec::width;
    tile.nc = (n - done + width_ - 1) / width_ * width_;
    tile.ms = (m + tile.mc - 1) / tile.mc * tile.mc;
    Output rest = out;
    rest.data += done;
    if (rest.column_bias) rest.column_bias += done;
    gemm(m, n - done, K, chunk, a, From{*this, first + done}, rest, tile);
  }

  // Its panels from a column on, as the operand of a product.
  struct From {
    const PrepackedB& panels;
    std::int64_t column;
  };

  struct Block {
    static constexpr bool unpacked = false;
    const PrepackedB& panels;
    std::int64_t column, first, count, k0;  // first counts from `column` on

    Panel panel(std::int64_t p) const {
      const std::int64_t at = p * panels.width_;
      return {first + at, static_cast<int>(std::min<std::int64_t>(panels.width_, count - at)),
              panels.at(column + first + at) + k0 * panels.width_};
    }
    static const std::int64_t* offset() { return nullptr; }
  };

 private:
  static constexpr int tile_vectors = 2;

  const float* at(std::int64_t column) const { return packed_.data() + column * K_; }

  // As many columns as whole tiles have; returns their number.
  template <int R>
  std::int64_t few_rows(std::int64_t n, std::int64_t K, std::int64_t chunk, const StridedPacker& a, const Output& out,
                        std::int64_t first) const {
    constexpr int P = 4 / R;  // panels of a tile: 8 chains
    const std::int64_t whole = n / width_ * width_;
    std::int64_t j = 0;
    for (; j + P * width_ <= whole; j += P * width_) few_rows_tile<R, P>(K, chunk, a, out, first + j, j);
    for (; j < whole; j += width_) few_rows_tile<R, 1>(K, chunk, a, out, first + j, j);
    return whole;
  }

  // R rows and P panels, from `column` of B and j of C on.
  template <int R, int P>
  void few_rows_tile(std::int64_t K, std::int64_t chunk, const StridedPacker& a, const Output& out, std::int64_t column,
                     std::int64_t j) const {
    REPDL_ROUTE("panels: few rows", R, P);
    constexpr int V = tile_vectors, W = Vec::width;
    const std::int64_t panel = K_ * V * W;
    const float* b = at(column);
    if (!chunk) chunk = std::max<std::int64_t>(K, 1);
    ChunkTree<R * P * V> tree;
    Vecs<R * P * V> acc;
    for (std::int64_t begin = 0;; begin += chunk) {
      const std::int64_t end = std::min(K, begin + chunk);
      acc.clear();
      for (std::int64_t k = begin; k < end; ++k) {
        Vec x[R];
        for (int i = 0; i < R; ++i) x[i] = Vec::set1(a.data[i * a.outer + k * a.inner]);
        for (int p = 0; p < P; ++p)
          for (int v = 0; v < V; ++v) {
            const Vec y = Vec::load(b + p * panel + (k * V + v) * W);
            for (int i = 0; i < R; ++i) acc[(i * P + p) * V + v] = fma(x[i], y, acc[(i * P + p) * V + v]);
          }
      }
      if (end >= K) break;
      REPDL_ROUTE("panels: tree of few rows", R, P);
      tree.push(acc);
    }
    acc = tree.finish(acc);
    for (int i = 0; i < R; ++i)
      for (int v = 0; v < P * V; ++v) {
        Vec result = acc[i * P * V + v];
        if (out.column_bias) result = result + Vec::load(out.column_bias + j + v * W);
        canonical(result).store(out.data + i * out.ld + j + v * W);
      }
  }

  std::int64_t n_, K_;
  int width_;
  Scratch<float> packed_;
};

inline PrepackedB::Block pack_block(const PrepackedB::From& from, std::int64_t first, std::int64_t count, int,
                                    std::int64_t k0, std::int64_t, float*) {
  return {from.panels, from.column, first, count, k0};
}
inline std::int64_t packed_floats(const PrepackedB::From&, std::int64_t, std::int64_t) { return 0; }

}  // namespace repdl::cpu
