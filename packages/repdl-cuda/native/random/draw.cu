// Draws, and what a word does to an element (random.md, distributions.md, dropout.md). A thread has a block of
// four numbers; the position is read by the host.
//
//   for i < n:  (n) -> (n), m = offset + i
//     out[i] = f(word(m, plane), x[i])     a function of a word, or of 64 bits
//     out[i] = f(block m / 4)[m mod 4]     a function of a block
#include "base/launch.hpp"
#include "repdl/random/draws.hpp"

namespace repdl::cuda {
inline namespace draw_cu {

using random::Position;

constexpr int threads = 256;

// A thread's block, and the elements of the draw that are its four.
struct Four {
  std::uint64_t block;
  std::int64_t first;  // may be negative: of a block that begins before the draw

  __device__ explicit Four(const Position& at)
      : block(at.offset / 4 + static_cast<std::uint64_t>(thread_index())),
        first(4 * thread_index() - static_cast<std::int64_t>(at.offset % 4)) {}
  __device__ bool has(int j, std::int64_t count) const { return first + j >= 0 && first + j < count; }
};

// The options are rounded here, as the environment of the host is not known to be IEEE's.
template <class F, class T, class... Options>
__global__ void __launch_bounds__(threads)
    draw_words(Position at, int plane, T* out, std::int64_t count, Options... options) {
  const Four of(at);
  const F f(options...);
  const random::Block<std::uint64_t> words = at.words(of.block, plane);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (of.has(j, count)) out[of.first + j] = f(static_cast<std::uint32_t>(words.word[j]));
}

template <class F, class T, class... Options>
__global__ void __launch_bounds__(threads)
    map_words(Position at, const T* x, T* out, std::int64_t count, Options... options) {
  const Four of(at);
  const F f(options...);
  const random::Block<std::uint64_t> words = at.words(of.block, 0);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (of.has(j, count)) out[of.first + j] = f(static_cast<std::uint32_t>(words.word[j]), x[of.first + j]);
}

template <class F, class T, class... Options>
__global__ void __launch_bounds__(threads)
    draw_wide_words(Position at, T* out, std::int64_t count, Options... options) {
  const Four of(at);
  const F f(options...);
  const random::Block<std::uint64_t> high = at.words(of.block, 0), low = at.words(of.block, 1);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (of.has(j, count)) out[of.first + j] = f(random::wide(high.word[j], low.word[j]));
}

template <class F, class T, class... Options>
__global__ void __launch_bounds__(threads) draw_blocks(Position at, T* out, std::int64_t count, Options... options) {
  const Four of(at);
  if (of.first >= count) return;
  const F f(options...);
  T four[4];
  f(at, of.block, four);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (of.has(j, count)) out[of.first + j] = four[j];
}

// The blocks of threads that the numbers of a draw need.
std::int64_t grid(const Position& at, std::int64_t count) {
  return count == 0 ? 0 : ceil_div(ceil_div(count + static_cast<std::int64_t>(at.offset % 4), 4), threads);
}

template <class F, class... Options>
void of_words(const Tensor& position, int plane, const Tensor& output, const ExecContext& exec, Options... options) {
  using T = typename F::Element;
  const Position at(position);
  launch(exec.op, draw_words<F, T, Options...>, {grid(at, output.count())}, threads, 0, stream_of(exec), at, plane,
         output.as<T>(), output.count(), options...);
}

template <class F, class... Options>
void of_wide_words(const Tensor& position, const Tensor& output, const ExecContext& exec, Options... options) {
  using T = typename F::Element;
  const Position at(position);
  launch(exec.op, draw_wide_words<F, T, Options...>, {grid(at, output.count())}, threads, 0, stream_of(exec), at,
         output.as<T>(), output.count(), options...);
}

template <class F, class... Options>
void of_operand(const Tensor& x, const Tensor& position, const Tensor& output, const ExecContext& exec,
                Options... options) {
  using T = typename F::Element;
  const Position at(position);
  launch(exec.op, map_words<F, T, Options...>, {grid(at, output.count())}, threads, 0, stream_of(exec), at,
         static_cast<const T*>(x.as<T>()), output.as<T>(), output.count(), options...);
}

template <class F, class... Options>
void of_blocks(const Tensor& position, const Tensor& output, const ExecContext& exec, Options... options) {
  using T = typename F::Element;
  const Position at(position);
  launch(exec.op, draw_blocks<F, T, Options...>, {grid(at, output.count())}, threads, 0, stream_of(exec), at,
         output.as<T>(), output.count(), options...);
}

void random_words(const Tensor&, const Tensor& position, std::int64_t plane, const Tensor& output,
                  const ExecContext& exec) {
  of_words<random::Word>(position, static_cast<int>(plane), output, exec);
}

void random_integers(const Tensor&, const Tensor& position, std::int64_t low, std::int64_t high, const Tensor& output,
                     const ExecContext& exec) {
  of_blocks<random::Integers>(position, output, exec, low, high);
}

void uniform(const Tensor&, const Tensor& position, double low, double high, double limit, const Tensor& output,
             const ExecContext& exec) {
  of_words<random::Uniform>(position, 0, output, exec, low, high, limit);
}

void wide_uniform(const Tensor&, const Tensor& position, double low, double high, double limit, const Tensor& output,
                  const ExecContext& exec) {
  of_wide_words<random::WideUniform>(position, output, exec, low, high, limit);
}

void normal(const Tensor&, const Tensor& position, double mean, double std, const Tensor& output,
            const ExecContext& exec) {
  of_blocks<random::Normal>(position, output, exec, mean, std);
}

void wide_normal(const Tensor&, const Tensor& position, double mean, double std, const Tensor& output,
                 const ExecContext& exec) {
  of_blocks<random::WideNormal>(position, output, exec, mean, std);
}

void exponential(const Tensor&, const Tensor& position, double lambd, const Tensor& output, const ExecContext& exec) {
  of_words<random::Exponential>(position, 0, output, exec, lambd);
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
  of_operand<random::Bernoulli<T>>(p, position, output, exec);
}

template <class T>
void bernoulli_scalar(const Tensor&, const Tensor& position, double p, const Tensor& output, const ExecContext& exec) {
  of_words<random::BernoulliScalar<T>>(position, 0, output, exec, p);
}

template <class T>
void dropout(const Tensor& input, const Tensor& position, double p, const Tensor& output, const ExecContext& exec) {
  of_operand<random::Dropout<T>>(input, position, output, exec, p);
}

const AddKernel word_kernel = add_kernel<&random_words>("random_words", DType::float32);
const AddKernel integer_kernel = add_kernel<&random_integers>("random_integers", DType::float32);
const AddKernel uniform_kernels = add_kernels<&uniform, &wide_uniform>("uniform");
const AddKernel normal_kernels = add_kernels<&normal, &wide_normal>("normal");
const AddKernel exponential_kernels = add_kernels<&exponential, &wide_exponential>("exponential");
const AddKernel truncated_normal_kernels =
    add_kernels<&truncated_normal<float>, &truncated_normal<double>>("truncated_normal");
const AddKernel bernoulli_kernels = add_kernels<&bernoulli<float>, &bernoulli<double>>("bernoulli", Layout::rows);
const AddKernel bernoulli_scalar_kernels =
    add_kernels<&bernoulli_scalar<float>, &bernoulli_scalar<double>>("bernoulli_scalar");
const AddKernel dropout_kernels = add_kernels<&dropout<float>, &dropout<double>>("dropout", Layout::rows);

}  // namespace draw_cu
}  // namespace repdl::cuda
