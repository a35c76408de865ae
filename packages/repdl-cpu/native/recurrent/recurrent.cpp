// One direction of a recurrent layer: the steps of its formula (recurrent.md) in one call.
//
//   for each step, row, element:  (P), (k * H, P) -> (k)   q = h @ weight' + bias
//                                 (k), (k) -> ()           h, c = cell(x, q, c)
//   with a projection, row:       (H), (P, H) -> (P)       h = h @ projection'
//
// A thread makes the sums of all gates of its elements and what the cell makes of them: after the last thread a step
// ends, as the next one reads all of h. The states are the last ones of the outputs, from the first step on.
#include "cell/cell_row.hpp"
#include "recurrent/step_parts.hpp"

namespace repdl::cpu {
namespace recurrent {
namespace {

// input, hidden -> output
template <class T>
struct RnnTanh {
  static constexpr int inputs[2] = {1, 1}, outputs[1] = {1};
  void operator()(const T (&x)[2], T (&y)[1]) const {
    using exact::tanh;
    y[0] = tanh(x[0] + x[1]);
  }
};
template <class T>
struct RnnRelu {
  static constexpr int inputs[2] = {1, 1}, outputs[1] = {1};
  void operator()(const T (&x)[2], T (&y)[1]) const {
    const T sum = x[0] + x[1], zero = pointwise::constant<T>(0.0);
    y[0] = select(sum < zero, zero, sum);
  }
};

// What an op is called with; what its cell has none of is not given.
struct Layer {
  const Tensor &input, &hidden, &cell, &weight, &bias, &projection;
  const Ints& sizes;
  bool reverse, saves;
  const Contract& contract;
  const Tensor &output, &last_hidden, &last_cell, &cells, &gates;
};

template <template <class> class F>
class Steps {
  static constexpr int gates = F<float>::inputs[0];
  static constexpr bool has_cell = std::size(F<float>::outputs) == 3, has_state = std::size(F<float>::inputs) == 3;
  static constexpr bool has_gates = std::size(F<float>::outputs) >= 2;

 public:
  Steps(const Layer& layer, const ExecContext& exec)
      : layer_(layer), threads_(exec.threads), steps_(static_cast<std::int64_t>(layer.sizes.length)),
        batch_(layer.sizes[0]), size_(layer.weight.size[0] / gates), width_(layer.hidden.size[1]),
        product_(layer.weight, contiguous_vector<float>(layer.bias, exec), gates, steps_, batch_,
                 layer.contract.dot_chunk, exec.threads),
        input_(rows_of(layer.input, size_, exec)), output_{layer.output.as<float>(), width_, 0},
        cells_{layer.cells.as<float>(), size_, 0}, gates_{layer.gates.as<float>(), 4 * size_, size_},
        last_hidden_{layer.last_hidden.as<float>(), width_, 0}, last_cell_{layer.last_cell.as<float>(), size_, 0},
        unprojected_(layer.projection.given ? batch_ * size_ : 0) {
    begin(rows_of(layer.hidden, 0, exec), last_hidden_, width_);
    if (has_cell) begin(rows_of(layer.cell, 0, exec), last_cell_, size_);
  }

  void run() const {
    if (!layer_.projection.given) return all([](std::int64_t, std::int64_t) {});
    const GateProduct projection(layer_.projection, nullptr, 1, steps_, batch_, layer_.contract.dot_chunk, threads_);
    all([&](std::int64_t first, std::int64_t rows) {
      const ElementRows to = output_.from(first);
      share(projection, rows, 0, threads_, [&](const Tile& tile, float* scratch) {
        const GateSums sums =
            projection.multiply(tile.rows, unprojected_.data() + tile.row * size_, tile.block, tile.blocks, scratch);
        for (std::int64_t r = 0; r < tile.rows; ++r)
          std::copy_n(sums.data + r * sums.row, tile.elements, to.data + (tile.row + r) * width_ + tile.element);
      });
    });
  }

 private:
  void begin(const ElementRows& given, const ElementRows& state, std::int64_t columns) const {
    for (std::int64_t r = 0; r < batch_; ++r)
      std::copy_n(given.data + r * given.row, columns, state.data + r * state.row);
  }

  // All steps, each followed by `after`, from its first row on.
  template <class After>
  void all(const After& after) const {
    std::int64_t first = 0;
    if (layer_.reverse)
      for (const std::int64_t rows : layer_.sizes) first += rows;
    for (std::int64_t t = 0; t < steps_; ++t) {
      const std::int64_t rows = layer_.sizes[static_cast<std::size_t>(layer_.reverse ? steps_ - 1 - t : t)];
      if (layer_.reverse) first -= rows;
      step(first, rows);
      after(first, rows);
      std::copy_n(output_.data + first * width_, rows * width_, last_hidden_.data);
      if (!layer_.reverse) first += rows;
    }
  }

  void step(std::int64_t first, std::int64_t rows) const {
    share(product_, rows, cell_work, threads_, [&](const Tile& tile, float* scratch) {
      const float* h = last_hidden_.data + tile.row * width_;
      cell(first, tile, product_.multiply(tile.rows, h, tile.block, tile.blocks, scratch));
    });
  }

  void cell(std::int64_t first, const Tile& tile, const GateSums& sums) const {
    const Scratch<float> unsaved(has_gates && !layer_.saves ? 4 * sums.width : 0);
    const ElementRows output = unprojected_.data() ? ElementRows{unprojected_.data(), size_, 0} : output_.from(first);
    for (std::int64_t r = 0; r < tile.rows; ++r)
      for (std::int64_t e = 0; e < tile.elements; e += sums.width) {
        const std::int64_t row = tile.row + r, element = tile.element + e;
        const auto at = [=](const ElementRows& rows) { return rows.data + row * rows.row + element; };
        CellRow<F<float>> values;
        for (int g = 0; g < gates; ++g) {
          values.in[g] = at(input_.from(first)) + g * input_.value;
          values.in[gates + g] = sums.data + r * sums.row + e / sums.width * sums.block + g * sums.width;
        }
        if constexpr (has_state) values.in[2 * gates] = at(has_cell ? last_cell_ : last_hidden_);
        values.out[0] = at(output);
        if constexpr (has_cell) values.out[1] = at(last_cell_);
        if constexpr (has_gates)
          for (int g = 0; g < 4; ++g)
            values.out[has_cell + 1 + g] =
                layer_.saves ? at(gates_.from(first)) + g * size_ : unsaved.data() + g * sums.width;
        const std::int64_t count = std::min(sums.width, tile.elements - e);
        cell_row<F>(values, count);
        if (has_cell && layer_.saves) std::copy_n(at(last_cell_), count, at(cells_.from(first)));
      }
  }

  const Layer& layer_;
  int threads_;
  std::int64_t steps_, batch_, size_, width_;  // width: of the hidden state
  GateProduct product_;
  ElementRows input_, output_, cells_, gates_, last_hidden_, last_cell_;
  Scratch<float> unprojected_;
};

template <template <class> class F>
void run_layer(const Layer& layer, const ExecContext& exec) {
  if (layer.sizes[0] > 0) Steps<F>(layer, exec).run();
}

const Tensor none;

void rnn(const Tensor& input, const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Ints& sizes,
         bool reverse, std::string_view nonlinearity, const Contract& contract, const Tensor& output,
         const Tensor& last, const ExecContext& exec) {
  const Layer layer{input, hidden,   none,   weight, bias, none, sizes, reverse,
                    false, contract, output, last,   none, none, none};
  nonlinearity == "tanh" ? run_layer<RnnTanh>(layer, exec) : run_layer<RnnRelu>(layer, exec);
}

void lstm(const Tensor& input, const Tensor& hidden, const Tensor& cell, const Tensor& weight, const Tensor& bias,
          const Tensor& projection, const Ints& sizes, bool reverse, bool saves, const Contract& contract,
          const Tensor& output, const Tensor& last_hidden, const Tensor& last_cell, const Tensor& cells,
          const Tensor& gates, const ExecContext& exec) {
  run_layer<cell::LstmGates>({input, hidden, cell, weight, bias, projection, sizes, reverse, saves, contract, output,
                              last_hidden, last_cell, cells, gates},
                             exec);
}

void gru(const Tensor& input, const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Ints& sizes,
         bool reverse, bool saves, const Contract& contract, const Tensor& output, const Tensor& last,
         const Tensor& gates, const ExecContext& exec) {
  run_layer<cell::GruGates>(
      {input, hidden, none, weight, bias, none, sizes, reverse, saves, contract, output, last, none, none, gates},
      exec);
}

const AddKernel rnn_kernel = add_kernel<&rnn>("rnn_layer", DType::float32);
const AddKernel lstm_kernel = add_kernel<&lstm>("lstm_layer", DType::float32);
const AddKernel gru_kernel = add_kernel<&gru>("gru_layer", DType::float32);

}  // namespace
}  // namespace recurrent
}  // namespace repdl::cpu
