// The elements of recurrent cells (cell.md): what an LSTM and a GRU do with the sums before their gates, and back.
//
// A function is a struct with
//
//   op                  its name
//   inputs, outputs     how many values of an element each tensor of the op's schema holds: a tensor with k of them
//                       is (rows, k * size), and value j of element e stands in column j * size + e
//   operator()(x, y)    the values of one element, those of all tensors one after the other, in T: float,
//                       double or a vector of floats of a CPU
//
// Both backends have a loop that is put around all of them (entry.hpp).
#pragma once

#include "repdl/exact/doubles.hpp"
#include "repdl/exact/sigmoid.hpp"
#include "repdl/exact/tanh.hpp"
#include "repdl/pointwise/function.hpp"

namespace repdl::cell {

using exact::sigmoid;
using exact::tanh;
using pointwise::constant;

// How many values the tensors hold together.
template <class Counts>
constexpr int total(const Counts& counts) {
  int sum = 0;
  for (const int count : counts) sum += count;
  return sum;
}

// y' of y = sigmoid, y = tanh.
template <class T>
REPDL_HD inline T sigmoid_slope(T y) {
  return mul(constant<T>(1.0) - y, y);
}
template <class T>
REPDL_HD inline T tanh_slope(T y) {
  return constant<T>(1.0) - mul(y, y);
}

// input 4, hidden 4, cell -> output, new_cell, gates 4
template <class T>
struct LstmGates {
  static constexpr auto op = "lstm_gates";
  static constexpr int inputs[] = {4, 4, 1}, outputs[] = {1, 1, 4};

  REPDL_HD void operator()(const T (&x)[9], T (&y)[6]) const {
    const T i = sigmoid(x[0] + x[4]), f = sigmoid(x[1] + x[5]), g = tanh(x[2] + x[6]), o = sigmoid(x[3] + x[7]);
    const T cell = mul(f, x[8]) + mul(i, g);
    y[0] = mul(o, tanh(cell));
    y[1] = cell;
    y[2] = i, y[3] = f, y[4] = g, y[5] = o;
  }
};

// grad, grad_cell, gates 4, cell, new_cell -> grad_gates 4, grad_old
template <class T>
struct LstmGatesBackward {
  static constexpr auto op = "lstm_gates_backward";
  static constexpr int inputs[] = {1, 1, 4, 1, 1}, outputs[] = {4, 1};

  REPDL_HD void operator()(const T (&x)[8], T (&y)[5]) const {
    const T grad = x[0], i = x[2], f = x[3], g = x[4], o = x[5], cell = x[6], t = tanh(x[7]);
    const T d = x[1] + mul(mul(grad, o), tanh_slope(t));
    y[0] = mul(mul(d, g), sigmoid_slope(i));
    y[1] = mul(mul(d, cell), sigmoid_slope(f));
    y[2] = mul(mul(d, i), tanh_slope(g));
    y[3] = mul(mul(grad, t), sigmoid_slope(o));
    y[4] = mul(d, f);
  }
};

// input 3, hidden 3, state -> output, gates 4
template <class T>
struct GruGates {
  static constexpr auto op = "gru_gates";
  static constexpr int inputs[] = {3, 3, 1}, outputs[] = {1, 4};

  REPDL_HD void operator()(const T (&x)[7], T (&y)[5]) const {
    const T r = sigmoid(x[0] + x[3]), z = sigmoid(x[1] + x[4]), n = tanh(x[2] + mul(r, x[5]));
    y[0] = mul(x[6] - n, z) + n;
    y[1] = r, y[2] = z, y[3] = n, y[4] = x[5];
  }
};

// grad, gates 4, state -> grad_input 3, grad_hidden 3, grad_state
template <class T>
struct GruGatesBackward {
  static constexpr auto op = "gru_gates_backward";
  static constexpr int inputs[] = {1, 4, 1}, outputs[] = {3, 3, 1};

  REPDL_HD void operator()(const T (&x)[6], T (&y)[7]) const {
    const T grad = x[0], r = x[1], z = x[2], n = x[3], hidden = x[4], state = x[5], kept = mul(grad, z);
    y[2] = mul(grad - kept, tanh_slope(n));
    y[0] = y[3] = mul(mul(y[2], hidden), sigmoid_slope(r));
    y[1] = y[4] = mul(mul(grad, state - n), sigmoid_slope(z));
    y[5] = mul(y[2], r);
    y[6] = kept;
  }
};

using Cells = pointwise::List<LstmGates, LstmGatesBackward, GruGates, GruGatesBackward>;

}  // namespace repdl::cell
