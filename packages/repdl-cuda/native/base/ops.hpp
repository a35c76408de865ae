// What each family gives to Python: functions that launch its kernels, in <family>.cu.
//
// Tensors are addresses and element strides; the last argument says where to run. Those that
// are templates have float kernels in the module and double ones in its submodule f64
// (module.cpp). A new family adds its lines here and in module.cpp, nothing else.
#pragma once

#include "base/types.hpp"

namespace repdl::cuda {

template <class T>
void adam_step(const std::vector<std::vector<Address>>& tensors, const Sizes& counts, double lr, double beta1,
               double beta2, double eps, double weight_decay, double bias_correction1, double bias_correction2,
               bool maximize, bool decoupled, const Stream& stream);

// Contiguous tensors; `sizes` are N, C, H, W, O, OH, OW, KH, KW, then stride, padding and
// dilation, two each, then groups. `tile` and `work` as for matmul.
template <class T>
std::int64_t conv2d_work(const Sizes& sizes, std::int64_t chunk, int tile, const Stream& stream);
template <class T>
void conv2d(Address x, Address w, Address bias, Address y, Address work, const Sizes& sizes, std::int64_t chunk,
            int tile, const Stream& stream);
template <class T>
std::int64_t conv2d_grad_input_work(const Sizes& sizes, std::int64_t chunk, int tile, const Stream& stream);
template <class T>
void conv2d_grad_input(Address grad, Address w, Address y, Address work, const Sizes& sizes, std::int64_t chunk,
                       int tile, const Stream& stream);
template <class T>
std::int64_t conv2d_grad_weight_work(const Sizes& sizes, std::int64_t chunk, int tile, const Stream& stream);
template <class T>
void conv2d_grad_weight(Address grad, Address x, Address y, Address work, const Sizes& sizes, std::int64_t chunk,
                        int tile, const Stream& stream);

// Strides are those of the batch dimensions (0 to broadcast), then of rows and columns; bias
// may be 0. `tile` is 0, or the tile to use, for tests. `work` has matmul_work elements.
template <class T>
std::int64_t matmul_work(const Sizes& batch, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t chunk,
                         int tile, const Stream& stream);
template <class T>
void matmul(Address a, Address b, Address y, Address bias, Address work, const Sizes& batch, const Sizes& a_stride,
            const Sizes& b_stride, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t chunk, int tile,
            const Stream& stream);

template <class T>
void sgd_step(const std::vector<std::vector<Address>>& tensors, const Sizes& counts, double lr, double weight_decay,
              double momentum, double dampening, bool nesterov, bool maximize, bool first, const Stream& stream);

}  // namespace repdl::cuda
