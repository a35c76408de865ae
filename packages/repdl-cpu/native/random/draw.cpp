// Draws, and what a word does to an element (random.md, distributions.md, dropout.md).
//
//   for i < n:  (n) -> (n), m = offset + i
//     out[i] = f(word(m, plane), x[i])     a function of a word
//     out[i] = f(block m / 4)[m mod 4]     a function of a block
#include <tuple>

#include "random/words.hpp"
#include "repdl/random/draws.hpp"

namespace repdl::cpu {
namespace {

using random::Position;

constexpr std::int64_t draw_grain = 1 << 14;  // elements worth a thread

// The compiler vectorises the loop over a piece. Constructors of F round: they run where the environment is IEEE's.
template <class F, class... X, class... Options>
void of_words(const Tensor& position, int plane, const Tensor& output, const Run& run, std::tuple<const X*...> operands,
              const Options&... options) {
  using T = typename F::Element;
  const Position at(position);
  parallel_for(output.count(), draw_grain, run.threads, [&](std::int64_t begin, std::int64_t end) {
    const F f(options...);
    alignas(64) std::uint32_t words[words_at_once];
    in_pieces(at, begin, end, [&](const Piece& piece) {
      fill_words(at, piece, plane, words);
      std::apply(
          [&](const X*... x) {
            T* __restrict out = output.as<T>() + piece.element;
            const std::uint32_t* __restrict word = words + piece.skip;
            const F g = f;
            for (std::int64_t j = 0; j < piece.count; ++j) out[j] = g(word[j], x[piece.element + j]...);
          },
          operands);
    });
  });
}

template <class F, class... Options>
void of_blocks(const Tensor& position, const Tensor& output, const Run& run, const Options&... options) {
  using T = typename F::Element;
  const Position at(position);
  parallel_for(output.count(), draw_grain, run.threads, [&](std::int64_t begin, std::int64_t end) {
    const F f(options...);
    T four[4];
    for (std::int64_t i = begin; i < end;) {
      const std::uint64_t number = at.offset + static_cast<std::uint64_t>(i);
      f(at, number / 4, four);
      for (std::int64_t j = static_cast<std::int64_t>(number % 4); j < 4 && i < end; ++j) output.as<T>()[i++] = four[j];
    }
  });
}

void random_words(const Tensor&, const Tensor& position, std::int64_t plane, const Tensor& output, const Run& run) {
  of_words<random::Word>(position, static_cast<int>(plane), output, run, std::tuple<>());
}

void uniform(const Tensor&, const Tensor& position, double low, double high, double limit, const Tensor& output,
             const Run& run) {
  of_words<random::Uniform>(position, 0, output, run, std::tuple<>(), low, high, limit);
}

void wide_uniform(const Tensor&, const Tensor& position, double low, double high, double limit, const Tensor& output,
                  const Run& run) {
  of_blocks<random::WideUniform>(position, output, run, low, high, limit);
}

void normal(const Tensor&, const Tensor& position, double mean, double std, const Tensor& output, const Run& run) {
  of_blocks<random::Normal>(position, output, run, mean, std);
}

void exponential(const Tensor&, const Tensor& position, double lambd, const Tensor& output, const Run& run) {
  of_words<random::Exponential>(position, 0, output, run, std::tuple<>(), lambd);
}

void truncated_normal(const Tensor&, const Tensor& position, double mean, double std, double a, double b,
                      const Tensor& output, const Run& run) {
  of_blocks<random::TruncatedNormal>(position, output, run, mean, std, a, b);
}

template <class T>
void bernoulli(const Tensor& p, const Tensor& position, const Tensor& output, const Run& run) {
  of_words<random::Bernoulli<T>>(position, 0, output, run, std::tuple<const T*>(p.as<T>()));
}

template <class T>
void bernoulli_scalar(const Tensor&, const Tensor& position, double p, const Tensor& output, const Run& run) {
  of_words<random::BernoulliScalar<T>>(position, 0, output, run, std::tuple<>(), p);
}

template <class T>
void dropout(const Tensor& input, const Tensor& position, double p, const Tensor& output, const Run& run) {
  of_words<random::Dropout<T>>(position, 0, output, run, std::tuple<const T*>(input.as<T>()), p);
}

void random_integers(const Tensor&, const Tensor& position, std::int64_t low, std::int64_t high, const Tensor& output,
                     const Run& run) {
  of_blocks<random::Integers>(position, output, run, low, high);
}

const AddKernel word_kernel = add_kernel<&random_words>("random_words", DType::float32);
const AddKernel integer_kernel = add_kernel<&random_integers>("random_integers", DType::float32);
const AddKernel uniform_kernels = add_kernels<&uniform, &wide_uniform>("uniform");
const AddKernel normal_kernel = add_kernel<&normal>("normal", DType::float32);
const AddKernel exponential_kernel = add_kernel<&exponential>("exponential", DType::float32);
const AddKernel truncated_normal_kernel = add_kernel<&truncated_normal>("truncated_normal", DType::float32);
const AddKernel bernoulli_kernels = add_kernels<&bernoulli<float>, &bernoulli<double>>("bernoulli", Layout::rows);
const AddKernel bernoulli_scalar_kernels =
    add_kernels<&bernoulli_scalar<float>, &bernoulli_scalar<double>>("bernoulli_scalar");
const AddKernel dropout_kernels = add_kernels<&dropout<float>, &dropout<double>>("dropout", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
