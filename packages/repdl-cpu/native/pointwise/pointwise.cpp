// out[i] = f(a[i], b[i], ...): the loop around every pointwise function (repdl/pointwise/functions.hpp).
//
//   for i over the broadcast shape:  (...), (...) -> (...)
//     out[i] = f(a[i], b[i], ...)
//
// walk.hpp walks the shape, what is here sees elements that follow each other.
#include "base/routes.hpp"
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
#include "pointwise/walk.hpp"
#include "repdl/pointwise/entry.hpp"
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

// The loops over elements that follow each other, of one function.
template <class F, class = std::make_index_sequence<pointwise::Parameters<F>::count>>
struct Dense;
template <class F, std::size_t... I>
struct Dense<F, std::index_sequence<I...>> {
  using Addresses = typename Walk<sizeof...(I)>::Addresses;
  template <std::size_t k>
  using Element = typename pointwise::Parameters<F>::template at<k>;

  template <class T>
  static void elements(const void* function, const Addresses& x, char* output, std::int64_t n) {
    const F f = *static_cast<const F*>(function);
    T* out = reinterpret_cast<T*>(output);
    using Paths = typename pointwise::PathsOf<F>::type;
    if constexpr (!std::is_void_v<Paths>) {
      if (((x[I] != output) && ...)) {
        REPDL_ROUTE("pointwise: two paths");
        return exact::evaluate(Paths(), out, n, reinterpret_cast<const float*>(x[I])...);
      }
    }
    const std::tuple<const Element<I>*...> operands{reinterpret_cast<const Element<I>*>(x[I])...};
    for (std::int64_t i = 0; i < n; ++i) out[i] = canonical(f(std::get<I>(operands)[i]...));
  }

  // The same with vectors: f, and a form of it that says where its result is decided.
  template <class V, class D, class T>
  static void vectors(const void* functions, const Addresses& x, char* out, std::int64_t n) {
    const auto& [f, tested] = *static_cast<const std::pair<V, D>*>(functions);
    row(f, tested, reinterpret_cast<T*>(out), n,
        std::array<const T*, sizeof...(I)>{reinterpret_cast<const T*>(x[I])...});
  }

 private:
  // Of doubles; what the last Vec64 has more than the row is computed of zeros, and not stored.
  template <class V, class D>
  static void row(const V& f, const D& tested, double* out, std::int64_t n,
                  const std::array<const double*, sizeof...(I)>& x) {
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
  static void row(const V& f, const D& tested, float* out, std::int64_t n,
                  const std::array<const float*, sizeof...(I)>& x) {
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
        const auto exact = [=](const std::array<Vec, sizeof...(I)>& given) { return result(f(given[I]...)); };
        RetryQueue<sizeof...(I), decltype(exact)> retries(exact, out);
        for (int k = 0; k < n; ++k)
          for (const std::int64_t i : {at[k], at[k] + Vec::width}) {
            const std::array<Vec, sizeof...(I)> given{Vec::load(x[I] + i)...};
            const auto y = stages.second(stages.first(given[I]...), given[I]...);
            put(i, FullVector{}, y.value);
            retries.add(i, given, !y.decided);
          }
      };
      row_loop(n, first, both, apart, one);
    }
  }
};

struct Loop {
  static constexpr Layout layout = Layout::in_place;

  template <template <class> class F, class T, std::size_t N, class... Options>
  static void run(const std::array<const Tensor*, N>& operands, const Tensor& output, const ExecContext& exec,
                  const Options&... options) {
    constexpr std::int64_t grain = F<T>::costly ? 1 << 12 : 1 << 15;  // elements worth a thread
    const std::tuple<Options...> given(options...);
    walk<N>(operands, output, exec, grain, &share<F, T, N, Options...>, &given);
  }

 private:
  template <template <class> class F, class T, std::size_t N, class... Options>
  static void share(const Walk<N>& walk, const void* given) {
    constexpr bool vectors = std::is_same_v<T, float> ? F<T>::vectors : F<T>::vectors_of_doubles && vectors_of_doubles;
    // Options are rounded here, where the environment is IEEE's.
    std::apply(
        [&](const Options&... options) {
          if constexpr (vectors) {
            using V = std::conditional_t<std::is_same_v<T, float>, Vec, Vec64>;
            constexpr bool exact = std::is_base_of_v<pointwise::Exact, F<T>>;
            using Tested =
                std::conditional_t<std::is_same_v<T, float>, TestedVecs, std::conditional_t<exact, TestedVec64, V>>;
            const std::pair<F<V>, F<Tested>> functions{F<V>(options...), F<Tested>(options...)};
            walk.each(&Dense<F<T>>::template vectors<F<V>, F<Tested>, T>, &functions);
          } else {
            const F<T> f(options...);
            walk.each(&Dense<F<T>>::template elements<T>, &f);
          }
        },
        *static_cast<const std::tuple<Options...>*>(given));
  }
};

const AddKernel pointwise_kernels = pointwise::add_functions<Loop>(pointwise::Functions());

}  // namespace
}  // namespace repdl::cpu
