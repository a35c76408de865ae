// The derivative of one direction of an LSTM layer: the steps of its formula (recurrent.md) in one call, taken the
// other way round.
//
//   for each step, row, column:   (P), (P) -> ()             e = G + e
//   with a projection, element:   (P), (P, H) -> (H)         e' = e @ projection
//   for each element:             (), (), (4), (), () -> (4), ()   s, d = cell'(e', d, gates, c, new_c)
//   for each column:              (4 * H), (4 * H, P) -> ()  e = s @ weight
//
// e and d are the gradients of the states that the layer began with, when the last step is done: rows that are not in a
// step keep theirs.
#include "base/routes.hpp"
#include "base/tuned.hpp"
#include "cell/cell_row.hpp"
#include "recurrent/step_parts.hpp"

namespace repdl::cpu {
namespace recurrent {
namespace {

template <class T>
struct Sum {
  static constexpr int inputs[2] = {1, 1}, outputs[1] = {1};
  void operator()(const T (&x)[2], T (&y)[1]) const { y[0] = x[0] + x[1]; }
};

// What the op is called with.
struct LayerBackward {
  const Tensor &grad, &grad_hidden, &grad_cell, &hidden, &cell, &weight, &projection, &output, &cells, &gates;
  const Ints& sizes;
  bool reverse;
  const Contract& contract;
  const Tensor &to_input, &to_hidden, &to_cell, &before, &to_output;
};

// A matrix (K, n), of which a product takes the columns.
class Transposed {
 public:
  explicit Transposed(const Tensor& matrix)
      : size_{matrix.size[1], matrix.size[0]}, stride_{matrix.stride[1], matrix.stride[0]}, tensor_(matrix) {
    tensor_.size = size_;
    tensor_.stride = stride_;
  }
  Transposed(const Transposed&) = delete;

  const Tensor& get() const { return tensor_; }

 private:
  std::int64_t size_[2], stride_[2];
  Tensor tensor_;
};

// The rows that a step has, and those of the states that it began with: of the step before it where that had the
// sequence too, else the first ones.
struct Rows {
  std::int64_t first, count, earlier, kept;

  const float* before(std::int64_t r, const ElementRows& made, const ElementRows& initial) const {
    return r < kept ? made.from(earlier + r).data : initial.from(r).data;
  }
};

class StepsBackward {
 public:
  StepsBackward(const LayerBackward& layer, const ExecContext& exec)
      : layer_(layer), threads_(exec.threads), steps_(static_cast<std::int64_t>(layer.sizes.length)),
        batch_(layer.sizes[0]), size_(layer.cell.size[1]), width_(layer.hidden.size[1]), weight_(layer.weight),
        product_(weight_.get(), nullptr, 1, steps_, batch_, layer.contract.dot_chunk, exec.threads),
        grad_(rows_of(layer.grad, 0, exec)), hidden_(rows_of(layer.hidden, 0, exec)),
        cell_(rows_of(layer.cell, 0, exec)), output_(rows_of(layer.output, 0, exec)),
        cells_(rows_of(layer.cells, 0, exec)), gates_(rows_of(layer.gates, size_, exec)),
        to_input_{layer.to_input.as<float>(), 4 * size_, size_}, to_hidden_{layer.to_hidden.as<float>(), width_, 0},
        to_cell_{layer.to_cell.as<float>(), size_, 0}, before_{layer.before.as<float>(), width_, 0},
        to_output_{layer.to_output.as<float>(), width_, 0}, unprojected_(layer.projection.given ? batch_ * size_ : 0) {
    begin(rows_of(layer.grad_hidden, 0, exec), to_hidden_, width_);
    begin(rows_of(layer.grad_cell, 0, exec), to_cell_, size_);
  }

  void run() const {
    if (!layer_.projection.given)
      return all([&](const Rows& rows) {
        cells(rows, [&](std::int64_t r, std::int64_t element, std::int64_t count, float* to) {
          whole(rows, r, element, count, to);
          return to;
        });
      });
    const Transposed matrix(layer_.projection);
    const GateProduct projection(matrix.get(), nullptr, 1, steps_, batch_, layer_.contract.dot_chunk, threads_);
    all([&](const Rows& rows) {
      parallel_for(rows.count, grain / (width_ + 1) + 1, threads_, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) whole(rows, r, 0, width_, to_output_.from(rows.first + r).data);
      });
      multiply(projection, rows.count, to_output_.from(rows.first).data, {unprojected_.data(), size_, 0});
      cells(rows, [&](std::int64_t r, std::int64_t element, std::int64_t, float*) {
        return unprojected_.data() + r * size_ + element;
      });
    });
  }

 private:
  static constexpr std::int64_t grain = 3 << 17;

  void begin(const ElementRows& given, const ElementRows& state, std::int64_t columns) const {
    for (std::int64_t r = 0; r < batch_; ++r) std::copy_n(given.from(r).data, columns, state.from(r).data);
  }

  // All steps: what `gradients` makes of the state, then its product.
  template <class Gradients>
  void all(const Gradients& gradients) const {
    const auto size = [&](std::int64_t t) { return layer_.sizes[static_cast<std::size_t>(t)]; };
    std::int64_t first = 0;
    if (!layer_.reverse)
      for (const std::int64_t rows : layer_.sizes) first += rows;
    for (std::int64_t i = 0; i < steps_; ++i) {
      const std::int64_t t = layer_.reverse ? i : steps_ - 1 - i, count = size(t);
      if (!layer_.reverse) first -= count;
      Rows rows{first, count, 0, 0};
      if (i + 1 < steps_) {
        rows.kept = std::min(count, size(layer_.reverse ? t + 1 : t - 1));
        rows.earlier = layer_.reverse ? first + count : first - size(t - 1);
      }
      for (std::int64_t r = 0; r < count; ++r)
        std::copy_n(rows.before(r, output_, hidden_), width_, before_.from(first + r).data);
      gradients(rows);
      multiply(product_, count, to_input_.from(first).data, to_hidden_);
      if (layer_.reverse) first += count;
    }
  }

  // e of a row of a step, of some columns.
  void whole(const Rows& rows, std::int64_t r, std::int64_t column, std::int64_t count, float* to) const {
    cell_row<Sum>({{grad_.from(rows.first + r).data + column, to_hidden_.from(r).data + column}, {to}}, count);
  }

  // The rows of a step; grads(row, element, count, memory) are those of some elements of the output of the cell.
  template <class Grads>
  void cells(const Rows& rows, const Grads& grads) const {
    constexpr std::int64_t most = tuned(256, 3);
    parallel_for(rows.count * size_, grain / cell_work, threads_, [&](std::int64_t begin, std::int64_t end) {
      float memory[most];
      while (begin < end) {
        const std::int64_t r = begin / size_, element = begin % size_;
        const std::int64_t count = std::min({end - begin, size_ - element, most});
        if (count == most) REPDL_ROUTE("recurrent backward: elements of a row in several parts");
        const auto at = [&](const ElementRows& of) { return of.from(rows.first + r).data + element; };
        CellRow<cell::LstmGatesBackward<float>> values;
        values.in[0] = grads(r, element, count, memory);
        float* to_cell = to_cell_.from(r).data + element;
        values.in[1] = to_cell;
        for (int g = 0; g < 4; ++g) {
          values.in[2 + g] = at(gates_) + g * gates_.value;
          values.out[g] = at(to_input_) + g * to_input_.value;
        }
        values.in[6] = rows.before(r, cells_, cell_) + element;
        values.in[7] = at(cells_);
        values.out[4] = to_cell;
        cell_row<cell::LstmGatesBackward>(values, count);
        begin += count;
      }
    });
  }

  // Rows of `from` by a matrix.
  void multiply(const GateProduct& product, std::int64_t rows, const float* from, const ElementRows& to) const {
    share(product, rows, 0, threads_, [&](const Tile& tile, float* scratch) {
      const GateSums sums =
          product.multiply(tile.rows, from + tile.row * product.terms(), tile.block, tile.blocks, scratch);
      for (std::int64_t r = 0; r < tile.rows; ++r)
        std::copy_n(sums.data + r * sums.row, tile.elements, to.from(tile.row + r).data + tile.element);
    });
  }

  const LayerBackward& layer_;
  int threads_;
  std::int64_t steps_, batch_, size_, width_;  // width: of the hidden state
  Transposed weight_;
  GateProduct product_;
  ElementRows grad_, hidden_, cell_, output_, cells_, gates_, to_input_, to_hidden_, to_cell_, before_, to_output_;
  Scratch<float> unprojected_;
};

void lstm_backward(const Tensor& grad, const Tensor& grad_hidden, const Tensor& grad_cell, const Tensor& hidden,
                   const Tensor& cell, const Tensor& weight, const Tensor& projection, const Tensor& output,
                   const Tensor& cells, const Tensor& gates, const Ints& sizes, bool reverse, const Contract& contract,
                   const Tensor& to_input, const Tensor& to_hidden, const Tensor& to_cell, const Tensor& before,
                   const Tensor& to_output, const ExecContext& exec) {
  if (sizes[0] == 0) return;
  StepsBackward({grad, grad_hidden, grad_cell, hidden, cell, weight, projection, output, cells, gates, sizes, reverse,
                 contract, to_input, to_hidden, to_cell, before, to_output},
                exec)
      .run();
}

const AddKernel lstm_backward_kernel = add_kernel<&lstm_backward>("lstm_layer_backward", DType::float32);

}  // namespace
}  // namespace recurrent
}  // namespace repdl::cpu
