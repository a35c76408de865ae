// O = dropout(softmax(mask(Q K' * factor))) V, the weights of a block of queries at a time (attention.md).
//
//   for each head, i < rows, a block at a time:  (rows, E), (keys, E), (keys, V) -> (rows, V)
//     w[i, :] = dropout(softmax(mask(dot(Q[i, :], K[:, :]) * factor)))
//     O[i, :] = dot(w[i, :], V)
//
// Keys that no query of a block sees are left out where that changes no bit: their weights are +0, which adds +-0 to
// chains and lanes that start at +0, and +0 to the tree. That could change a result of -0, after which all keys are
// taken; and one with a value that is not finite, of which the product is NaN.
#include "attention/weights.hpp"
#include "base/threads.hpp"
#include "base/routes.hpp"
#include "base/tuned.hpp"

namespace repdl::cpu {
namespace attention {
namespace {

constexpr std::int64_t query_block = tuned(max_rows * 4 < 48 ? 48 : max_rows * 4, 3);  // whose weights stay in L2

// One head of keys.
class ForwardHead {
 public:
  ForwardHead(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& output, const Options& options,
              std::int64_t head)
      : query_(query, head), value_(value, head), output_(output, head), options_(options), head_(head),
        keys_(Matrix(key, head).by_row(), options.keys, query_.columns),
        values_(value_.by_column(), value_.columns, options.keys),
        leaves_out_(options.causal && std::isfinite(value_.largest())) {}

  void block(std::int64_t first, std::int64_t count, float* weights) const {
    const std::int64_t keys = options_.keys, limit = leaves_out_ ? options_.visible(first, count) : keys;
    const std::int64_t chunk = options_.contract.dot_chunk, columns = value_.columns;
    RowKind kind[query_block];
    keys_.multiply(count, limit, query_.columns, chunk, query_.by_row(first), Output{weights, keys});
    const Rows rows{options_, head_, first, count};
    to_weights(weights, keys, limit, rows, kind);
    drop(weights, limit, rows);
    float* out = output_.data + first * columns;
    values_.multiply(count, columns, limit, chunk, {weights, keys, 1}, Output{out, columns});
    if (limit == keys) return;
    REPDL_ROUTE("attention: keys left out");
    if (!has_minus_zero(out, count * columns)) return;
    REPDL_ROUTE("attention: again with all keys");
    for (std::int64_t i = 0; i < count; ++i)
      std::fill(weights + i * keys + limit, weights + (i + 1) * keys, 0.0f);  // a row with a NaN has no zeros
    values_.multiply(count, columns, keys, chunk, {weights, keys, 1}, Output{out, columns});
  }

 private:
  Matrix query_, value_, output_;
  const Options& options_;
  std::int64_t head_;
  PrepackedB keys_, values_;
  bool leaves_out_;
};

void forward(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias, const Tensor& mask,
             const Tensor& position, const Tensor& factor, double dropout_p, bool causal, std::int64_t length,
             const Contract& contract, const Tensor& output, const ExecContext& exec) {
  const Options options(query, key, bias, mask, position, factor, dropout_p, causal, length, contract);
  const std::int64_t rows = query.size[2], blocks = (rows + query_block - 1) / query_block;
  parallel_for(query.size[0] * query.size[1] * blocks, 1, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    const Scratch<float> weights(std::min(rows, query_block) * options.keys);
    while (begin < end) {
      const std::int64_t head = begin / blocks, last = std::min(end, (head + 1) * blocks);
      const ForwardHead one(query, key, value, output, options, head);
      for (; begin < last; ++begin) {
        const std::int64_t first = begin % blocks * query_block;
        if (first > 0) REPDL_ROUTE("attention: second block of queries");
        one.block(first, std::min(query_block, rows - first), weights.data());
      }
    }
  });
}

const AddKernel attention_kernel = add_kernel<&forward>("attention", DType::float32);

}  // namespace
}  // namespace attention
}  // namespace repdl::cpu
