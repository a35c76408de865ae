// The product in tiles that matmul, linear and the convolutions share, in the contract's
// order (matmul.md):
//
//   for each b, i < m, j < n:  (batch, m, k), (batch, k, n) -> (batch, m, n)
//     for each chunk of k, at most `chunk` long:
//       acc = +0
//       for k in the chunk:  acc = fma(A[b, i, k], B[b, k, j], acc)
//     C[b, i, j] = tree over the chunks' acc
//
// A CUDA block computes a tile of C over one split of k, and then its next one. Each thread
// keeps a patch of the tile in registers. Slices of A and B, `depth` long in k, come through
// shared memory, several on their way at once; no slice crosses a chunk, and none is padded:
// its length bounds the loop. Chunk sums that wait for their sibling in the tree lie in
// `levels`, where each thread reads what it wrote itself. A split of k is a subtree; where
// there are several, join_splits adds the rest of the tree.
//
// Operands and outputs are classes (strided.hpp, images.hpp); gemm_run.hpp launches.
#pragma once

#include "base/copy.hpp"
#include "base/launch.hpp"
#include "base/thread_tree.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cuda {

// Sizes of a product, and how its work is divided (gemm_run.hpp). k is divided into splits
// of split_k, a power of two of chunks, of which the last may be shorter.
struct Gemm {
  int m, n, k, batch;
  int chunk;
  int split_k, splits;
  int tiles_m, tiles_n;
  int levels;  // of the tree within a split
  int work;    // tiles of all splits of all products
};

// Tuning: the tile of a CUDA block, the patch of a thread. A warp has 4 by 8 patches.
template <class Element, int Tile, int Rows, int Columns>
struct Tiling {
  using T = Element;
  static constexpr int tile = Tile, rows = Rows, columns = Columns;
  static constexpr int threads = Tile / Rows * (Tile / Columns);
  static constexpr int vector = 16 / sizeof(T);                   // elements that one instruction moves
  static constexpr int depth = 16;                                // of a slice, in k
  static constexpr int stages = Tile * sizeof(T) == 512 ? 2 : 3;  // slices in shared memory
  static constexpr int width = Tile + vector;                     // of a row of a slice: k apart is banks apart
  static constexpr int blocks = 512 / threads;  // at once on a multiprocessor, for 128 registers a thread
};

template <class T>
struct alignas(16) Vector {
  T at[16 / sizeof(T)];
};

template <class Tiling>
using Slice = typename Tiling::T[Tiling::depth][Tiling::width];  // [k][row of A or column of B]

template <class Tiling>
struct alignas(16) GemmMemory {
  Slice<Tiling> a[Tiling::stages], b[Tiling::stages];
};

// x, which the compiler takes for unknown: what follows from it is computed anew, and does
// not stay in registers over the main loop.
__device__ __forceinline__ int anew(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

// The slices of a split of k, in order.
template <int depth>
struct Slices {
  int left, after, chunk;  // k that is left in the chunk, and in the split after it

  __device__ Slices(int k, int chunk) : left(k < chunk ? k : chunk), after(k - left), chunk(chunk) {}
  __device__ int length() const { return left < depth ? left : depth; }  // 0 after the last
  // Goes to the next; true after the last slice of a chunk.
  __device__ bool next() {
    left -= length();
    if (left > 0) return false;
    left = after < chunk ? after : chunk;
    after -= left;
    return true;
  }
};

// A thread's patch: rows row(r) and columns column(c) of the tile, in vectors apart so that
// the lanes of a warp read neighbouring vectors of shared memory. The patches of a warp lie in
// Z order: lanes i and i ^ 1 have the same columns, i and i ^ 2 the same rows. A load of 16
// bytes a lane takes two requests of shared memory where such pairs share addresses, else four.
template <class Tiling>
class Patch {
  using T = typename Tiling::T;
  static constexpr int vector = Tiling::vector, warps_n = Tiling::tile / (8 * Tiling::columns);

 public:
  static constexpr int rows = Tiling::rows, columns = Tiling::columns;
  T sum[rows][columns];

  __device__ Patch() : row_(first_row()), column_(first_column()) {}
  __device__ int row(int r) const { return row_ + r / vector * (4 * vector) + r % vector; }
  __device__ int column(int c) const { return column_ + c / vector * (8 * vector) + c % vector; }

  __device__ void clear() {
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int c = 0; c < columns; ++c) sum[r][c] = T(0);
  }

  // One k of the chains.
  __device__ void multiply(const T (&a)[Tiling::width], const T (&b)[Tiling::width]) {
    Vector<T> x[rows / vector], y[columns / vector];
#pragma unroll
    for (int r = 0; r < rows; r += vector) x[r / vector] = *reinterpret_cast<const Vector<T>*>(&a[row(r)]);
#pragma unroll
    for (int c = 0; c < columns; c += vector) y[c / vector] = *reinterpret_cast<const Vector<T>*>(&b[column(c)]);
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int c = 0; c < columns; ++c)
        sum[r][c] = fma(x[r / vector].at[r % vector], y[c / vector].at[c % vector], sum[r][c]);
  }

  // Joins the sums of chunk number `index` with those that wait in `levels`; unless it is the last
  // one, the result waits there too.
  //
  // Level 0 has half of these loads and stores. On an H200 all levels cost 4% of a product of 8192^3; level 0 in shared
  // memory gained nothing. It takes 64 KiB a block beside 34 of slices, so two blocks only fit where a multiprocessor
  // has 228 (9.0, 10.0) and none on 7.5; in registers there is no place for it, where two blocks leave 128.
  __device__ void join(T* levels, int index, bool last) {
    constexpr int level = Tiling::tile * Tiling::tile / vector;
    Vector<T>* waiting = reinterpret_cast<Vector<T>*>(levels) + threadIdx.x;
    const int waits = tree_join(index, last, [&](int l) { add(waiting + l * level); });
    if (!last) write(waiting + waits * level);
  }

 private:
  static __device__ int first_row() {
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    return warp / warps_n * (4 * rows) + (lane % 2 + lane / 16 * 2) * vector;
  }
  static __device__ int first_column() {
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    return warp % warps_n * (8 * columns) + lane / 2 % 8 * vector;
  }

  // Vector number i of a patch is at from[i * threads]: a warp reads and writes whole lines.
  __device__ void add(const Vector<T>* from) {
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int c = 0; c < columns; c += vector, from += Tiling::threads) {
        const Vector<T> left = *from;
#pragma unroll
        for (int v = 0; v < vector; ++v) sum[r][c + v] = left.at[v] + sum[r][c + v];
      }
  }
  __device__ void write(Vector<T>* to) const {
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int c = 0; c < columns; c += vector, to += Tiling::threads) {
        Vector<T> result;
#pragma unroll
        for (int v = 0; v < vector; ++v) result.at[v] = sum[r][c + v];
        *to = result;
      }
  }

  const int row_, column_;
};

// The sums of one tile over `k` of the index that the operands are loaded from.
template <class Tiling, class LoadA, class LoadB>
__device__ void sum_tile(Patch<Tiling>& patch, LoadA& a, LoadB& b, typename Tiling::T* levels, int k,
                         const Gemm& gemm) {
  constexpr int depth = Tiling::depth, stages = Tiling::stages;
  auto& memory = shared<GemmMemory<Tiling>>();
  Slices<depth> slices(k, gemm.chunk);
  // Starts to load a slice; its length, negative where it ends a chunk, 0 after the last.
  const auto load_next = [&](int stage) {
    const int length = slices.length();
    a.load(stage, length);
    b.load(stage, length);
    __pipeline_commit();
    return slices.next() ? -length : length;
  };
  int coming[stages];  // what load_next said of the slices from this one on
#pragma unroll
  for (int stage = 0; stage < stages - 1; ++stage) coming[stage] = load_next(stage);
  patch.clear();
  for (int stage = 0, index = 0; coming[0] != 0; stage = stage + 1 < stages ? stage + 1 : 0) {
    __pipeline_wait_prior(stages - 2);
    __syncthreads();  // the slice is here, and nobody reads the one before it
    coming[stages - 1] = load_next(stage == 0 ? stages - 1 : stage - 1);
    const Slice<Tiling>&slice_a = memory.a[stage], &slice_b = memory.b[stage];
    if (const int length = coming[0] < 0 ? -coming[0] : coming[0]; length == depth) {
#pragma unroll
      for (int k = 0; k < depth; ++k) patch.multiply(slice_a[k], slice_b[k]);
    } else {
#pragma unroll 1
      for (int k = 0; k < length; ++k) patch.multiply(slice_a[k], slice_b[k]);
    }
    if (coming[0] < 0) {
      const bool last = coming[1] == 0;
      const std::int64_t block = anew(blockIdx.x);
      patch.join(levels + block * gemm.levels * (Tiling::tile * Tiling::tile), index, last);
      if (!last) patch.clear();
      ++index;
    }
#pragma unroll
    for (int i = 0; i + 1 < stages; ++i) coming[i] = coming[i + 1];
  }
  __syncthreads();  // the next tile's slices may come
}

// One tile over one split of k, by its number.
struct Work {
  int i0, j0, split, product;

  __device__ Work(const Gemm& gemm, int tile, int number) {
    i0 = number % gemm.tiles_m * tile, number /= gemm.tiles_m;
    j0 = number % gemm.tiles_n * tile, number /= gemm.tiles_n;
    split = number % gemm.splits, product = number / gemm.splits;
  }
};

// Writes a patch: to C, or where k has several splits, to splits[split, b, i, j].
template <class Tiling, class C, class T>
__device__ void store(Patch<Tiling>& patch, const C& c, const Gemm& gemm, T* splits, const Work& work) {
  constexpr int vector = Tiling::vector;
  const bool partial = gemm.splits > 1;
  const int b = work.product;
  T* to = partial ? splits + (static_cast<std::int64_t>(work.split) * gemm.batch + b) * gemm.m * gemm.n : c.start_of(b);
  const std::int64_t row_stride = partial ? gemm.n : c.row_stride;
  const bool wide = partial ? gemm.n % vector == 0 : c.wide;
  if (!partial) {
#pragma unroll
    for (int column = 0; column < Patch<Tiling>::columns; ++column)
#pragma unroll
      for (int r = 0; r < Patch<Tiling>::rows; ++r) {
        const int i = work.i0 + patch.row(r), j = work.j0 + patch.column(column);
        if (i < gemm.m && j < gemm.n) patch.sum[r][column] = c.finish(patch.sum[r][column], b, i, j);
      }
  }
#pragma unroll
  for (int first = 0; first < Patch<Tiling>::columns; first += vector) {
    if (wide) {
      const int j = work.j0 + patch.column(first);
      if (j >= gemm.n) continue;
      T* at = to + (partial ? j : c.column(j));
#pragma unroll
      for (int r = 0; r < Patch<Tiling>::rows; ++r) {
        const int i = work.i0 + patch.row(r);
        if (i >= gemm.m) continue;
        Vector<T> result;
#pragma unroll
        for (int v = 0; v < vector; ++v) result.at[v] = patch.sum[r][first + v];
        *reinterpret_cast<Vector<T>*>(at + i * row_stride) = result;
      }
    } else {
#pragma unroll
      for (int v = 0; v < vector; ++v) {
        const int j = work.j0 + patch.column(first + v);
        if (j >= gemm.n) continue;
        T* at = to + (partial ? j : c.column(j));
#pragma unroll
        for (int r = 0; r < Patch<Tiling>::rows; ++r)
          if (const int i = work.i0 + patch.row(r); i < gemm.m) at[i * row_stride] = patch.sum[r][first + v];
      }
    }
  }
}

// All work, dealt out to the blocks in turn.
template <class Tiling, class A, class B, class C, class T>
__global__ void __launch_bounds__(Tiling::threads, Tiling::blocks)
    gemm_tiles(A a, B b, C c, Gemm gemm, T* levels, T* splits) {
  auto& memory = shared<GemmMemory<Tiling>>();
  // Without a sign: the number of the block's next tile may be 2^31 and more.
  for (unsigned next = blockIdx.x; next < static_cast<unsigned>(gemm.work); next += gridDim.x) {
    if (next >= gridDim.x) REPDL_ROUND("products: tiles of a block");
    const int number = static_cast<int>(next);
    Patch<Tiling> patch;
    {
      const Work work(gemm, Tiling::tile, number);
      const int begin = work.split * gemm.split_k;
      const int k = gemm.k - begin < gemm.split_k ? gemm.k - begin : gemm.split_k;
      typename A::template Loader<Tiling> load_a(a, memory.a, work.product, work.i0, gemm.m, begin);
      typename B::template Loader<Tiling> load_b(b, memory.b, work.product, work.j0, gemm.n, begin);
      sum_tile(patch, load_a, load_b, levels, k, gemm);
    }
    store(patch, c, gemm, splits, Work(gemm, Tiling::tile, anew(number)));
  }
}

// C[b, i, j] = tree over splits[..., b, i, j]: thread (o, g) joins the g-th subtree of output o.
constexpr int join_outputs = 32, join_groups = 32;
template <class T>
struct JoinMemory {
  T group[join_groups][join_outputs];
};
template <class C, class T>
__global__ void __launch_bounds__(join_outputs* join_groups) join_splits(const T* splits, C c, Gemm gemm, int each) {
  auto& group = shared<JoinMemory<T>>().group;
  const std::int64_t outputs = static_cast<std::int64_t>(gemm.batch) * gemm.m * gemm.n;
  const std::int64_t output = static_cast<std::int64_t>(blockIdx.x) * join_outputs + threadIdx.x;
  const int first = threadIdx.y * each;
  const int end = gemm.splits - first < each ? gemm.splits : first + each;
  if (output < outputs && first < end) {
    ThreadTree<T> tree;
#pragma unroll 4
    for (int split = first; split < end; ++split) tree.push(splits[split * outputs + output]);
    group[threadIdx.y][threadIdx.x] = tree.result();
  }
  __syncthreads();
  if (output < outputs && threadIdx.y == 0) {
    SmallTree<T, join_groups> tree;
    for (int g = 0; g * each < gemm.splits; ++g) tree.push(group[g][threadIdx.x]);
    const int j = static_cast<int>(output % gemm.n), i = static_cast<int>(output / gemm.n % gemm.m);
    const int b = static_cast<int>(output / gemm.n / gemm.m);
    c.start_of(b)[i * c.row_stride + c.column(j)] = c.finish(tree.result(), b, i, j);
  }
}

}  // namespace repdl::cuda
