// What the factorizations share: batches of matrices, and rows that threads take.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/threads.hpp"
#include "base/tuned.hpp"
#include "repdl/backend.hpp"

namespace repdl::cpu {

constexpr std::int64_t panel_columns = tuned(32, 3);  // whose products are added to what is right of them at once
constexpr std::int64_t products_for_thread = tuned(1 << 16, 8);  // below which it costs more to share them

template <class T>
void copy_rows(const T* from, std::int64_t from_row, T* to, std::int64_t to_row, std::int64_t rows,
               std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i)
    std::copy(from + i * from_row, from + i * from_row + columns, to + i * to_row);
}

// task(group) for all of them, each of which has so many products.
template <class Task>
void for_rows_of(std::int64_t groups, std::int64_t products, int threads, const Task& task) {
  const std::int64_t grain = std::max<std::int64_t>(1, products_for_thread / std::max<std::int64_t>(1, products));
  parallel_for(groups, grain, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) task(g);
  });
}

// task(first element, threads) for each matrix of a batch: several at once, or one after the other on all threads.
template <class Task>
void for_matrices(const Tensor& batch, int threads, const Task& task) {
  const std::int64_t elements = batch.size[batch.dims - 2] * batch.size[batch.dims - 1];
  if (elements == 0) return;
  const std::int64_t count = batch.count() / elements;
  if (count < threads) {  // in IEEE's environment, in which each matrix is shared
    parallel_for(1, 1, 1, [&](std::int64_t, std::int64_t) {
      for (std::int64_t b = 0; b < count; ++b) task(b * elements, threads);
    });
    return;
  }
  const std::int64_t grain = std::max<std::int64_t>(1, products_for_thread / (elements * 8));
  parallel_for(count, grain, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) task(b * elements, 1);
  });
}

}  // namespace repdl::cpu
