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

// (N, C, inner). given: running_mean, running_var, weight, bias, 0 for none; made: mean, invstd,
// and what the running statistics become. work: sum_work(C, N * inner), twice that backward.
template <class T>
void batch_norm(Address x, Address y, const std::vector<Address>& given, const std::vector<Address>& made, Address work,
                const Sizes& sizes, bool training, double momentum, double eps, std::int64_t lanes, std::int64_t block,
                const Stream& stream);
template <class T>
void batch_norm_backward(Address grad, Address x, Address weight, Address mean, Address invstd, Address result,
                         Address grad_weight, Address grad_bias, Address work, const Sizes& sizes, bool training,
                         std::int64_t lanes, std::int64_t block, const Stream& stream);

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

// `weights`, those of the targets, may be 0 without weight.
void cross_entropy(Address x, Address target, Address weight, Address losses, Address weights, Address max, Address sum,
                   std::int64_t rows, std::int64_t classes, std::int64_t ignore, std::int64_t lanes, std::int64_t block,
                   const Stream& stream);
void cross_entropy_backward(Address grad, Address x, Address target, Address weight, Address total, Address max,
                            Address sum, Address y, std::int64_t rows, std::int64_t classes, std::int64_t ignore,
                            int reduction, const Stream& stream);

// Strides are those of the batch dimensions (0 to broadcast), then of rows and columns; bias
// may be 0. `tile` is 0, or the tile to use, for tests. `work` has matmul_work elements.
template <class T>
std::int64_t matmul_work(const Sizes& batch, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t chunk,
                         int tile, const Stream& stream);
template <class T>
void matmul(Address a, Address b, Address y, Address bias, Address work, const Sizes& batch, const Sizes& a_stride,
            const Sizes& b_stride, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t chunk, int tile,
            const Stream& stream);

// The number of int64 that `work` needs. `indices` may be 0: none wanted.
std::int64_t max_work(std::int64_t rows, std::int64_t n);
template <class T>
void max_dim(Address x, Address values, Address indices, Address work, std::int64_t rows, std::int64_t n,
             const Stream& stream);
// `ties` is an int64 that is 0.
template <class T>
void max_backward(Address grad, Address x, Address y, Address result, Address ties, std::int64_t n,
                  const Stream& stream);

// `sizes`: N, C and the positions beside them. `weights`, those of the targets, may be 0 without weight.
template <class T>
void nll_loss(Address x, Address target, Address weight, Address losses, Address weights, const Sizes& sizes,
              std::int64_t ignore, const Stream& stream);
template <class T>
void nll_loss_backward(Address grad, Address target, Address weight, Address total, Address y, const Sizes& sizes,
                       std::int64_t ignore, int reduction, const Stream& stream);

// layer_norm, group_norm and rms_norm: (batch, groups, channels, inner), a row for each of
// (batch, groups). Without the address of means they are +0 (rms_norm); weight, bias and
// grad_bias may be 0. work: 2 * sum_work(groups * channels, batch * inner).
template <class T>
void norm_rows(const std::string& op, Address x, Address weight, Address bias, Address y, Address mean, Address rstd,
               const Sizes& sizes, double eps, std::int64_t lanes, std::int64_t block, const Stream& stream);
template <class T>
void norm_rows_backward(const std::string& op, Address grad, Address x, Address mean, Address rstd, Address weight,
                        Address result, Address grad_weight, Address grad_bias, Address work, const Sizes& sizes,
                        std::int64_t lanes, std::int64_t block, const Stream& stream);

template <class T>
void sgd_step(const std::vector<std::vector<Address>>& tensors, const Sizes& counts, double lr, double weight_decay,
              double momentum, double dampening, bool nesterov, bool maximize, bool first, const Stream& stream);

void softmax(Address x, Address y, std::int64_t rows, std::int64_t n, std::int64_t lanes, std::int64_t block,
             const Stream& stream);
void log_softmax(Address x, Address y, std::int64_t rows, std::int64_t n, std::int64_t lanes, std::int64_t block,
                 const Stream& stream);
void softmax_backward(Address grad, Address output, Address result, std::int64_t rows, std::int64_t n,
                      std::int64_t lanes, std::int64_t block, const Stream& stream);
void log_softmax_backward(Address grad, Address output, Address result, std::int64_t rows, std::int64_t n,
                          std::int64_t lanes, std::int64_t block, const Stream& stream);

// The number of elements that `work` needs: one for each block of each sum, if there are several.
std::int64_t sum_work(std::int64_t kept, std::int64_t reduced, std::int64_t block);
template <class T>
void sum(Address x, Address y, Address work, const Sizes& kept_size, const Sizes& kept_stride,
         const Sizes& reduced_size, const Sizes& reduced_stride, std::int64_t lanes, std::int64_t block,
         const Stream& stream);

}  // namespace repdl::cuda
