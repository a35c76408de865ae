// The derivative of attention, weights and their gradients a chunk of queries at a time (attention.md, Backward).
//
//   for each head, c chunks of `dot_chunk` rows:
//     w = weights of the chunk                           (chunk, keys)
//     d = softmax_backward(dropout(G[c] V'), w) * factor (chunk, keys)
//     dQ[c] = d K
//     dV = tree over c of dropout(w)' G[c],  dK = tree over c of d' Q[c]
//
// The gradient of an added mask is d before the factor.
//
// A chunk of rows is a chunk of the products whose terms they are, so that the weights of one chunk are all that is
// kept. Keys that no row of a chunk sees are left out as in attention.cpp.
#include <vector>

#include "attention/weights.hpp"
#include "base/threads.hpp"

namespace repdl::cpu {
namespace attention {
namespace {

// Rows of a chunk: all of them where a product has one chunk.
std::int64_t chunk_rows(const Contract& contract, std::int64_t rows) {
  return contract.dot_chunk == 0 ? rows : std::min(contract.dot_chunk, rows);
}

// The tree over chunks of a matrix (keys, columns): partial sums in memory.
class ChunkSums {
 public:
  ChunkSums(const Matrix& result, std::int64_t chunks)
      : result_(result.data), count_(result.rows * result.columns), columns_(result.columns), chunks_(chunks),
        memory_(chunks > 1 ? (tree_levels(chunks) + 1) * count_ : 0) {}

  // Adds A' B of one chunk, of which only the first `keys` rows are not +0.
  void add(std::int64_t index, const StridedPacker& a, const StridedPacker& b, std::int64_t keys, std::int64_t terms) {
    float* sum = chunks_ == 1 ? result_ : memory_.data() + tree_levels(chunks_) * count_;
    gemm(keys, columns_, terms, 0, a, b, Output{sum, columns_}, Tiling(keys, columns_, terms));
    std::fill(sum + keys * columns_, sum + count_, 0.0f);
    if (chunks_ == 1) return;
    const bool last = index + 1 == chunks_;
    const int waits = tree_join(index, last, [&](int level) {
      const float* left = memory_.data() + level * count_;
      row_loop(count_,
               [=](std::int64_t i, auto part) { part.store(sum + i, part.load(left + i) + part.load(sum + i)); });
    });
    if (last)
      row_loop(count_,
               [=, out = result_](std::int64_t i, auto part) { part.store(out + i, canonical(part.load(sum + i))); });
    else
      std::copy_n(sum, count_, memory_.data() + waits * count_);
  }

 private:
  float* result_;
  std::int64_t count_, columns_, chunks_;
  Scratch<float> memory_;
};

// One head of keys.
class BackwardHead {
 public:
  BackwardHead(const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value, const Options& options,
               std::int64_t head)
      : grad_(grad, head), query_(query, head), key_(key, head), value_(value, head), options_(options), head_(head),
        scores_(key_.by_row(), options.keys, key_.columns), weights_(value_.by_row(), options.keys, value_.columns),
        queries_(key_.by_column(), key_.columns, options.keys), leaves_out_(options.causal && is_finite()) {}

  // `w` and `d` are memory for a chunk.
  void run(const Matrix& grad_query, const Matrix& grad_key, const Matrix& grad_value, float* w, float* d,
           RowKind* kind) const {
    const std::int64_t rows = query_.rows, chunk = chunk_rows(options_.contract, rows);
    const std::int64_t chunks = (rows + chunk - 1) / chunk;
    ChunkSums of_key(grad_key, chunks), of_value(grad_value, chunks);
    const std::int64_t keys = options_.keys;
    for (std::int64_t c = 0; c < chunks; ++c) {
      const std::int64_t first = c * chunk, count = std::min(chunk, rows - first);
      const Rows chunk_rows{options_, head_, first, count};
      std::int64_t limit = leaves_out_ ? options_.visible(first, count) : keys;
      if (!weigh(chunk_rows, limit, w, kind)) weigh(chunk_rows, limit = keys, w, kind);
      to_gradients(chunk_rows, limit, w, d, kind);
      scale(chunk_rows, limit, d, kind);
      multiply_keys(chunk_rows, limit, d, grad_query);
      drop(w, limit, chunk_rows);
      of_value.add(c, {w, 1, keys}, grad_.by_column(first), limit, count);
      of_key.add(c, {d, 1, keys}, query_.by_column(first), limit, count);
    }
  }

  // The gradient of an added mask (rows, keys); no key is left out then. `w` is memory for a chunk.
  void run_bias(float* result, float* w, RowKind* kind) const {
    const std::int64_t rows = query_.rows, chunk = chunk_rows(options_.contract, rows), keys = options_.keys;
    for (std::int64_t first = 0; first < rows; first += chunk) {
      const Rows chunk_rows{options_, head_, first, std::min(chunk, rows - first)};
      weigh(chunk_rows, keys, w, kind);
      to_gradients(chunk_rows, keys, w, result + first * keys, kind);
    }
  }

 private:
  // Whether products with a weight or gradient of 0 are 0.
  bool is_finite() const {
    const double kept = options_.position.given && options_.dropout_p < 1 ? 1 / (1 - options_.dropout_p) : 1;
    const double products =
        static_cast<double>(grad_.largest()) * value_.largest() * static_cast<double>(value_.columns) * kept;
    // Below the largest float: no partial sum is infinite, and 0 times it is 0.
    return products < 1e38 && std::isfinite(query_.largest()) && std::isfinite(key_.largest()) &&
           std::isfinite(options_.factor);
  }

  // The weights of a chunk for the first `limit` keys; false where those of the others are not +0.
  bool weigh(const Rows& rows, std::int64_t limit, float* w, RowKind* kind) const {
    scores_.multiply(rows.count, limit, key_.columns, options_.contract.dot_chunk, query_.by_row(rows.first),
                     Output{w, options_.keys});
    to_weights(w, options_.keys, limit, rows, kind);
    return limit == options_.keys || std::find(kind, kind + rows.count, RowKind::nan) == kind + rows.count;
  }

  // The gradients of what softmax got, of the keys that are visible; +0 of a row that a mask hides.
  void to_gradients(const Rows& rows, std::int64_t limit, const float* weights, float* gradients,
                    const RowKind* kind) const {
    weights_.multiply(rows.count, limit, value_.columns, options_.contract.dot_chunk, grad_.by_row(rows.first),
                      Output{gradients, options_.keys});
    drop(gradients, limit, rows);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const float* w = weights + i * options_.keys;
      float* d = gradients + i * options_.keys;
      if (kind[i] == RowKind::hidden) {
        std::fill_n(d, limit, 0.0f);
        continue;
      }
      const float t = sum_each(limit, options_.contract,
                               [=](std::int64_t j, auto part) { return part.load(d + j) * part.load(w + j); });
      row_loop(rows.visible(i), [=](std::int64_t j, auto part) {
        part.store(d + j, canonical((part.load(d + j) - Vec::set1(t)) * part.load(w + j)));
      });
    }
  }

  // Those become the gradients of the products of queries and keys.
  void scale(const Rows& rows, std::int64_t limit, float* gradients, const RowKind* kind) const {
    const Vec factor = Vec::set1(options_.factor);
    const float none = canonical(0.0f * options_.factor);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      float* d = gradients + i * options_.keys;
      const std::int64_t visible = kind[i] == RowKind::hidden ? 0 : rows.visible(i);
      options_.mask.hide(d, visible, rows.batch(), rows.query_head(i), rows.query(i));
      row_loop(visible, [=](std::int64_t j, auto part) { part.store(d + j, canonical(part.load(d + j) * factor)); });
      std::fill(d + visible, d + limit, none);
    }
  }

  void multiply_keys(const Rows& rows, std::int64_t limit, float* d, const Matrix& result) const {
    const std::int64_t keys = options_.keys, chunk = options_.contract.dot_chunk, columns = result.columns;
    float* out = result.data + rows.first * columns;
    queries_.multiply(rows.count, columns, limit, chunk, {d, keys, 1}, Output{out, columns});
    if (limit == keys) return;
    REPDL_ROUTE("attention backward: keys left out");
    if (!has_minus_zero(out, rows.count * columns)) return;
    REPDL_ROUTE("attention backward: again with all keys");
    for (std::int64_t i = 0; i < rows.count; ++i)
      std::fill(d + i * keys + limit, d + (i + 1) * keys, 0.0f * options_.factor);
    queries_.multiply(rows.count, columns, keys, chunk, {d, keys, 1}, Output{out, columns});
  }

  Matrix grad_, query_, key_, value_;
  const Options& options_;
  std::int64_t head_;
  PrepackedB scores_, weights_, queries_;
  bool leaves_out_;
};

// Calls body(head, w, d, kind) for all heads of keys, with memory for a chunk of weights, of `gradients` as many or
// none, and of kinds of rows.
template <class Body>
void each_head(const Tensor& query, const Options& options, bool gradients, const ExecContext& exec, const Body& body) {
  parallel_for(query.size[0] * query.size[1], 1, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t rows = chunk_rows(options.contract, query.size[2]);
    const Scratch<float> w(rows * options.keys), d(gradients ? rows * options.keys : 0);
    std::vector<RowKind> kind(static_cast<std::size_t>(rows));
    for (std::int64_t head = begin; head < end; ++head) body(head, w.data(), d.data(), kind.data());
  });
}

void backward(const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
              const Tensor& mask, const Tensor& position, const Tensor& factor, double dropout_p, bool causal,
              std::int64_t length, const Contract& contract, const Tensor& grad_query, const Tensor& grad_key,
              const Tensor& grad_value, const ExecContext& exec) {
  const Options options(query, key, bias, mask, position, factor, dropout_p, causal, length, contract);
  each_head(query, options, true, exec, [&](std::int64_t head, float* w, float* d, RowKind* kind) {
    BackwardHead(grad, query, key, value, options, head)
        .run(Matrix(grad_query, head), Matrix(grad_key, head), Matrix(grad_value, head), w, d, kind);
  });
}

void backward_bias(const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
                   const Tensor& mask, const Tensor& position, const Tensor& factor, double dropout_p, bool causal,
                   std::int64_t length, const Contract& contract, const Tensor& output, const ExecContext& exec) {
  const Options options(query, key, bias, mask, position, factor, dropout_p, causal, length, contract);
  each_head(query, options, false, exec, [&](std::int64_t head, float* w, float*, RowKind* kind) {
    BackwardHead(grad, query, key, value, options, head)
        .run_bias(output.as<float>() + head * options.rows * options.keys, w, kind);
  });
}

const AddKernel attention_backward_kernel = add_kernel<&backward>("attention_backward", DType::float32);
const AddKernel attention_backward_bias_kernel = add_kernel<&backward_bias>("attention_backward_bias", DType::float32);

}  // namespace
}  // namespace attention
}  // namespace repdl::cpu
