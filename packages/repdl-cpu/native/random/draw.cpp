// Draws, and what a word does to an element (random.md, distributions.md, dropout.md).
//
//   for i < n:  (n) -> (n), m = offset + i
//     out[i] = f(word(m, plane), x[i])     a function of a word
//     out[i] = f(block m / 4)[m mod 4]     a function of a block
#include <algorithm>
#include <tuple>

#include "base/routes.hpp"
#include "base/row_major.hpp"
#include "random/words.hpp"
#include "repdl/random/draws.hpp"

namespace repdl::cpu {
namespace {

using random::Position;

constexpr std::int64_t draw_grain = 1 << 14;  // elements worth a thread

// The compiler vectorises the loop over a batch. Constructors of F round: they run where the environment is IEEE's.
template <class F, class... X, class... Options>
void of_words(const Tensor& position, int plane, const Tensor& output, const ExecContext& exec,
              std::tuple<const X*...> operands, const Options&... options) {
  using T = typename F::Element;
  const Position at(position);
  parallel_for(output.count(), draw_grain, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    const F f(options...);
    alignas(64) std::uint32_t words[words_at_once];
    in_batches(at, begin, end, [&](const Batch& batch) {
      fill_words(at, batch, plane, words);
      std::apply(
          [&](const X*... x) {
            T* __restrict out = output.as<T>() + batch.element;
            const std::uint32_t* __restrict word = words + batch.skip;
            const F g = f;
            for (std::int64_t j = 0; j < batch.count; ++j) out[j] = g(word[j], x[batch.element + j]...);
          },
          operands);
    });
  });
}

// The same of 64 bits a number.
template <class F, class... Options>
void of_wide_words(const Tensor& position, const Tensor& output, const ExecContext& exec, const Options&... options) {
  using T = typename F::Element;
  const Position at(position);
  parallel_for(output.count(), draw_grain, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    const F f(options...);
    alignas(64) std::uint32_t high[words_at_once], low[words_at_once];
    in_batches(at, begin, end, [&](const Batch& batch) {
      fill_words(at, batch, 0, high);
      fill_words(at, batch, 1, low);
      T* __restrict out = output.as<T>() + batch.element;
      const F g = f;
      for (std::int64_t j = 0; j < batch.count; ++j)
        out[j] = g(random::wide(high[batch.skip + j], low[batch.skip + j]));
    });
  });
}

template <class F, class... Options>
void of_blocks(const Tensor& position, const Tensor& output, const ExecContext& exec, const Options&... options) {
  using T = typename F::Element;
  const Position at(position);
  parallel_for(output.count(), draw_grain, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    const F f(options...);
    T four[4];
    for (std::int64_t i = begin; i < end;) {
      const std::uint64_t number = at.offset + static_cast<std::uint64_t>(i);
      f(at, number / 4, four);
      for (std::int64_t j = static_cast<std::int64_t>(number % 4); j < 4 && i < end; ++j) output.as<T>()[i++] = four[j];
    }
  });
}

void random_words(const Tensor&, const Tensor& position, std::int64_t plane, const Tensor& output,
                  const ExecContext& exec) {
  of_words<random::Word>(position, static_cast<int>(plane), output, exec, std::tuple<>());
}

void uniform(const Tensor&, const Tensor& position, double low, double high, double limit, const Tensor& output,
             const ExecContext& exec) {
  of_words<random::Uniform>(position, 0, output, exec, std::tuple<>(), low, high, limit);
}

void wide_uniform(const Tensor&, const Tensor& position, double low, double high, double limit, const Tensor& output,
                  const ExecContext& exec) {
  of_wide_words<random::WideUniform>(position, output, exec, low, high, limit);
}

void exponential(const Tensor&, const Tensor& position, double lambd, const Tensor& output, const ExecContext& exec) {
  of_words<random::Exponential>(position, 0, output, exec, std::tuple<>(), lambd);
}

void wide_exponential(const Tensor&, const Tensor& position, double lambd, const Tensor& output,
                      const ExecContext& exec) {
  of_wide_words<random::WideExponential>(position, output, exec, lambd);
}

template <class T>
void truncated_normal(const Tensor&, const Tensor& position, double mean, double std, double a, double b,
                      const Tensor& output, const ExecContext& exec) {
  of_blocks<random::TruncatedNormal<T>>(position, output, exec, mean, std, a, b);
}

template <class T>
void bernoulli(const Tensor& p, const Tensor& position, const Tensor& output, const ExecContext& exec) {
  of_words<random::Bernoulli<T>>(position, 0, output, exec, std::tuple<const T*>(p.as<T>()));
}

template <class T>
void bernoulli_scalar(const Tensor&, const Tensor& position, double p, const Tensor& output, const ExecContext& exec) {
  of_words<random::BernoulliScalar<T>>(position, 0, output, exec, std::tuple<>(), p);
}

// Calls body(x, stride, n) for elements [begin, end), in the row-major order of the shape: n at a time in a row.
template <class T, class Body>
void in_order(const Tensor& tensor, std::int64_t begin, std::int64_t end, const Body& body) {
  const int last = tensor.dims - 1;
  const std::int64_t length = tensor.size[last], step = tensor.stride[last];
  while (begin < end) {
    const std::int64_t first = begin % length, n = std::min(end - begin, length - first);
    std::int64_t row = begin / length, offset = first * step;
    for (int d = last - 1; d >= 0; --d) {
      offset += row % tensor.size[d] * tensor.stride[d];
      row /= tensor.size[d];
    }
    body(tensor.as<T>() + offset, step, n);
    begin += n;
  }
}

template <class T>
void dropout(const Tensor& input, const Tensor& position, double p, const Tensor& output, const ExecContext& exec) {
  using F = random::Dropout<T>;
  if (is_row_major(input) && is_row_major(output))
    return of_words<F>(position, 0, output, exec, std::tuple<const T*>(input.as<T>()), p);
  REPDL_ROUTE("dropout: any strides", sizeof(T));
  const Position at(position);
  parallel_for(output.count(), draw_grain, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    const F f(p);
    alignas(64) std::uint32_t words[words_at_once];
    T element[words_at_once];
    in_batches(at, begin, end, [&](const Batch& batch) {
      const std::int64_t until = batch.element + batch.count;
      fill_words(at, batch, 0, words);
      T* next = element;
      in_order<T>(input, batch.element, until, [&](const T* x, std::int64_t step, std::int64_t n) {
        for (std::int64_t j = 0; j < n; ++j) *next++ = x[j * step];
      });
      const std::uint32_t* __restrict word = words + batch.skip;
      const F g = f;
      for (std::int64_t j = 0; j < batch.count; ++j) element[j] = g(word[j], element[j]);
      const T* from = element;
      in_order<T>(output, batch.element, until, [&](T* y, std::int64_t step, std::int64_t n) {
        for (std::int64_t j = 0; j < n; ++j) y[j * step] = *from++;
      });
    });
  });
}

// Rejections are looked for a batch at a time, so that the compiler vectorises the rest.
void random_integers(const Tensor&, const Tensor& position, std::int64_t low, std::int64_t high, const Tensor& output,
                     const ExecContext& exec) {
  const random::Integers integers(low, high);
  if (!integers.narrow) return of_blocks<random::Integers>(position, output, exec, low, high);
  const Position at(position);
  parallel_for(output.count(), draw_grain, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) std::uint32_t words[words_at_once];
    in_batches(at, begin, end, [&](const Batch& batch) {
      fill_words(at, batch, 0, words);
      std::int64_t* __restrict out = output.as<std::int64_t>() + batch.element;
      const std::uint32_t* __restrict word = words + batch.skip;
      const random::Integers f = integers;
      unsigned rejected = 0;
      for (std::int64_t j = 0; j < batch.count; ++j) {
        const random::Integers::Attempt attempt = f(word[j]);
        out[j] = attempt.value;
        rejected |= !attempt.accepted;
      }
      if (rejected == 0) return;
      REPDL_ROUTE("integers: another attempt");
      for (std::int64_t j = 0; j < batch.count; ++j)
        if (!f(word[j]).accepted) out[j] = f.again(at, at.offset + static_cast<std::uint64_t>(batch.element + j));
    });
  });
}

const AddKernel word_kernel = add_kernel<&random_words>("random_words", DType::float32);
const AddKernel integer_kernel = add_kernel<&random_integers>("random_integers", DType::float32);
const AddKernel uniform_kernels = add_kernels<&uniform, &wide_uniform>("uniform");
const AddKernel exponential_kernels = add_kernels<&exponential, &wide_exponential>("exponential");
const AddKernel truncated_normal_kernels =
    add_kernels<&truncated_normal<float>, &truncated_normal<double>>("truncated_normal");
const AddKernel bernoulli_kernels = add_kernels<&bernoulli<float>, &bernoulli<double>>("bernoulli", Layout::rows);
const AddKernel bernoulli_scalar_kernels =
    add_kernels<&bernoulli_scalar<float>, &bernoulli_scalar<double>>("bernoulli_scalar");
const AddKernel dropout_kernels = add_kernels<&dropout<float>, &dropout<double>>("dropout");

}  // namespace
}  // namespace repdl::cpu
