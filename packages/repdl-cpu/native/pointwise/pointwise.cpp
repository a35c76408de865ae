// out[i] = f(a[i], b[i], ...): the loop around every pointwise function (repdl/pointwise/functions.hpp).
//
//   for i over the broadcast shape:  (...), (...) -> (...)
//     out[i] = f(a[i], b[i], ...)
#include <algorithm>

#include "base/routes.hpp"
#include "base/threads.hpp"
#include "base/tuned.hpp"
#include "exact/double_vec.hpp"
#include "exact/erf_vec.hpp"
#include "exact/exp2_vec.hpp"
#include "exact/exp_vec.hpp"
#include "exact/expm1_vec.hpp"
#include "exact/log_vec.hpp"
#include "exact/rsqrt_vec.hpp"
#include "exact/sigmoid_vec.hpp"
#include "exact/sin_vec.hpp"
#include "exact/tanh_vec.hpp"
#include "repdl/pointwise/entry.hpp"
#include "repdl/pointwise/pass.hpp"
#include "simd/row_loop.hpp"
#include "simd/row_loop_double.hpp"
#include "simd/retry_queue.hpp"
#include "simd/vectors.hpp"

namespace repdl::cpu {
namespace {

// The stages of a function of TestedVecs (row_loop.hpp).
template <class F>
OneStage<F> stages_of(const F& f) {
  return {f};
}
#if defined(__AVX512F__)
inline SigmoidStages stages_of(const pointwise::Sigmoid<TestedVec>&) { return {}; }
#endif

// The operands of F at one place: their addresses and the strides along the innermost dimension.
template <class F, class = std::make_index_sequence<pointwise::Parameters<F>::count>>
class Row;
template <class F, std::size_t... I>
class Row<F, std::index_sequence<I...>> {
 public:
  static constexpr int count = sizeof...(I);
  template <std::size_t k>
  using Element = typename pointwise::Parameters<F>::template at<k>;

  // Element `index` of the pass, and what follows it.
  Row(const std::array<const Tensor*, count>& operands, const pointwise::Pass<count>& pass, std::int64_t index) {
    std::int64_t offset[count] = {};
    for (int d = pass.dims - 1; d >= 0; --d) {
      const std::int64_t i = d == 0 ? index : index % pass.size[d];
      index = d == 0 ? 0 : index / pass.size[d];
      for (int k = 0; k < count; ++k) offset[k] += i * pass.stride[k][d];
    }
    ((address_[I] = operands[I]->template as<Element<I>>() + offset[I]), ...);
    for (int k = 0; k < count; ++k) stride_[k] = pass.inner(k);
  }

  bool each_is(std::array<std::int64_t, count> stride) const {
    return std::equal(stride.begin(), stride.end(), stride_);
  }
  bool dense() const { return ((stride_[I] == 1) && ...); }

  template <std::size_t k>
  const Element<k>* at() const {
    return static_cast<const Element<k>*>(address_[k]);
  }

  // out[i] = f(...) for n elements, each stride 0 or 1 and known where the compiler sees `steps`.
  template <class T, class... Steps>
  [[gnu::always_inline]] void loop(const F& f, T* out, std::int64_t n, Steps... steps) const {
    const std::tuple<const Element<I>*...> x{at<I>()...};
    for (std::int64_t i = 0; i < n; ++i) out[i] = canonical(f(std::get<I>(x)[i * steps]...));
  }

  template <class T>
  void run(const F& f, T* out, std::int64_t n) const {
    using One = std::integral_constant<std::int64_t, 1>;
    using Zero = std::integral_constant<std::int64_t, 0>;
    using Paths = typename pointwise::PathsOf<F>::type;
    if constexpr (!std::is_void_v<Paths>) {
      if (dense() && at<0>() != out) {
        REPDL_ROUTE("pointwise: two paths");
        return exact::evaluate(Paths(), at<0>(), out, n);
      }
    }
    if (dense()) return loop(f, out, n, std::conditional_t<I == I, One, One>()...);
    if constexpr (count == 2) {
      if (each_is({1, 0})) {
        REPDL_ROUTE("pointwise: one second operand", sizeof(T));
        return loop(f, out, n, One(), Zero());
      }
      if (each_is({0, 1})) {
        REPDL_ROUTE("pointwise: one first operand", sizeof(T));
        return loop(f, out, n, Zero(), One());
      }
    }
    REPDL_ROUTE("pointwise: any strides", count, sizeof(T));
    loop(f, out, n, stride_[I]...);
  }

  // The same with vectors: operands that are not dense are copied, a block at a time.
  template <class V, class D, class T>
  void run_vectors(const V& f, const D& tested, T* out, std::int64_t n) const {
    if (dense()) return vectors(f, tested, out, n, std::array<const T*, count>{at<I>()...});
    REPDL_ROUTE("pointwise: vectors, any strides", count, sizeof(T));
    constexpr std::int64_t block = tuned(512, 32);
    T copies[count][block];
    for (std::int64_t first = 0; first < n; first += block) {
      if (first > 0) REPDL_ROUTE("pointwise: second block of copies", count, sizeof(T));
      const std::int64_t length = std::min(block, n - first);
      for (int k = 0; k < count; ++k) {
        const T* x = static_cast<const T*>(address_[k]) + first * stride_[k];
        for (std::int64_t i = 0; i < length; ++i) copies[k][i] = x[i * stride_[k]];
      }
      vectors(f, tested, out + first, length, std::array<const T*, count>{copies[I]...});
    }
  }

 private:
  // Of doubles; what the last Vec64 has more than the row is computed of zeros, and not stored.
  template <class V, class D>
  [[gnu::always_inline]] static void vectors(const V& f, const D& tested, double* out, std::int64_t n,
                                             const std::array<const double*, count>& x) {
    const auto one = [=](std::int64_t i, auto part) {
      const auto y = f(part.load(x[I] + i)...);
      part.store(out + i, std::is_base_of_v<pointwise::Exact, V> ? y : canonical(y));
    };
    if constexpr (std::is_same_v<D, V>) {
      row_loop_double(n, one);
    } else {
      const auto fast = [=](std::int64_t i) __attribute__((always_inline)) {
        const TestedVec64 y = tested(TestedVec64{Vec64::load(x[I] + i), {}}...);
        if (!everywhere(y.decided)) return false;
        y.value.store(out + i);
        return true;
      };
      // Results may take the place of arguments: these are read before.
      const auto apart = [=](const std::int64_t* at, int vectors) __attribute__((noinline, cold)) {
        for (int k = 0; k < vectors; ++k) one(at[k], FullVector64{});
      };
      row_loop_double(n, fast, apart, one);
    }
  }

  template <class V, class D>
  [[gnu::always_inline]] static void vectors(const V& f, const D& tested, float* out, std::int64_t n,
                                             const std::array<const float*, count>& x) {
    const auto result = [](Vec y) { return std::is_base_of_v<pointwise::Exact, V> ? y : canonical(y); };
    const auto put = [=](std::int64_t i, auto part, Vec y)
                         __attribute__((always_inline)) { part.store(out + i, result(y)); };
    const auto one = [=](std::int64_t i, auto part)
                         __attribute__((always_inline)) { put(i, part, f(part.load(x[I] + i)...)); };
    if constexpr (std::is_same_v<D, V>) {
      row_loop(n, one);
    } else {
      const auto stages = stages_of(tested);
      const auto first = [=](std::int64_t i) __attribute__((always_inline)) {
        return std::pair(stages.first(Vec::load(x[I] + i)...), stages.first(Vec::load(x[I] + i + Vec::width)...));
      };
      const auto both = [=](std::int64_t i, const auto& state) __attribute__((always_inline)) {
        const auto low = stages.second(state.first, Vec::load(x[I] + i)...);
        const auto high = stages.second(state.second, Vec::load(x[I] + i + Vec::width)...);
        if (!all(low.decided & high.decided)) return false;
        put(i, FullVector{}, low.value);
        put(i + Vec::width, FullVector{}, high.value);
        return true;
      };
      // Results may take the place of arguments: these are read before.
      const auto apart = [=](const std::int64_t* at, int n) __attribute__((noinline, cold)) {
        const auto exact = [=](const std::array<Vec, count>& given) { return result(f(given[I]...)); };
        RetryQueue<count, decltype(exact)> retries(exact, out);
        for (int k = 0; k < n; ++k)
          for (const std::int64_t i : {at[k], at[k] + Vec::width}) {
            const std::array<Vec, count> given{Vec::load(x[I] + i)...};
            const auto y = stages.second(stages.first(given[I]...), given[I]...);
            put(i, FullVector{}, y.value);
            retries.add(i, given, !y.decided);
          }
      };
      row_loop(n, first, both, apart, one);
    }
  }

  const void* address_[count];
  std::int64_t stride_[count];
};

struct Loop {
  static constexpr Layout layout = Layout::in_place;

  template <template <class> class F, class T, std::size_t N, class... Options>
  static void run(const std::array<const Tensor*, N>& operands, const Tensor& output, const ExecContext& exec,
                  const Options&... options) {
    constexpr std::int64_t grain = F<T>::costly ? 1 << 12 : 1 << 15;  // elements worth a thread
    constexpr bool vectors = std::is_same_v<T, float> ? F<T>::vectors : F<T>::vectors_of_doubles && vectors_of_doubles;
    using V = std::conditional_t<std::is_same_v<T, float>, Vec, Vec64>;
    constexpr bool exact = vectors && std::is_base_of_v<pointwise::Exact, F<T>>;
    using Tested = std::conditional_t<std::is_same_v<T, float>, TestedVecs, std::conditional_t<exact, TestedVec64, V>>;
    const pointwise::Pass<N> pass(exec.op, output, operands);
    parallel_for(pass.count, grain, exec.threads, [&](std::int64_t begin, std::int64_t end) {
      // Options are rounded here, where the environment is IEEE's.
      const F<std::conditional_t<vectors, V, T>> f(options...);
      const F<std::conditional_t<vectors, Tested, T>> tested(options...);
      const std::int64_t length = pass.inner_size();
      while (begin < end) {
        const std::int64_t n = std::min(end - begin, length - begin % length);
        const Row<F<T>> row(operands, pass, begin);
        T* out = output.as<T>() + begin;
        if constexpr (vectors)
          row.run_vectors(f, tested, out, n);
        else
          row.run(f, out, n);
        begin += n;
      }
    });
  }
};

const AddKernel pointwise_kernels = pointwise::add_functions<Loop>(pointwise::Functions());

}  // namespace
}  // namespace repdl::cpu
