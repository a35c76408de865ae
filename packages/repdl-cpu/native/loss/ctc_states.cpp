// The recurrence of connectionist temporal classification, and its derivative (ctc_loss.md).
//
//   for each example and t:  (T, N, K), skips (N, K), lengths (N) -> (T, N, K), K states
//     a[t][s] = logsumexp(a[t-1][s], a[t-1][s-1], b) + e[t][s], b = a[t-1][s-2] where s skips, else z
#include <algorithm>

#include "base/routes.hpp"
#include "base/scratch.hpp"
#include "base/threads.hpp"
#include "exact/double_vec.hpp"
#include "exact/exp_vec.hpp"
#include "exact/log_vec.hpp"
#include "reduce/sum.hpp"
#include "repdl/backend.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/exact/log.hpp"
#include "simd/row_loop_double.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t states_a_thread = 1 << 10;  // of all steps

template <class T>
constexpr T impossible = T(-1e30);  // the logarithm of no probability

// The sum of three terms.
struct ThreeTerms {
  bool is_chain;  // of one lane, or in blocks of fewer than three

  explicit ThreeTerms(const Contract& contract)
      : is_chain(contract.sum_lanes == 1 || (contract.sum_block != 0 && contract.sum_block < 3)) {}

  template <class V>
  V operator()(V a, V b, V c) const {
    return is_chain ? (a + b) + c : (a + c) + b;
  }
};

// Rows of n states, with two zeros before and behind each.
template <class T>
class PaddedStates {
 public:
  PaddedStates(std::int64_t n, int count) : width_(n + 4), memory_(width_ * count) {
    std::fill(memory_.data(), memory_.data() + width_ * count, T(0));
  }
  T* operator[](int i) const { return memory_.data() + i * width_ + 2; }

 private:
  std::int64_t width_;
  Scratch<T> memory_;
};

// One step for the states of an example: where each comes from.
template <class T>
class StateSources {
 public:
  StateSources(std::int64_t n, const bool* skips, const Contract& contract)
      : sum(contract), n_(n), skips_(skips), rows_(n, 4) {
    begin(rows_[0]);
    rows_[0][0] = T(0);
  }

  // The states before the first step.
  const T* first() const { return rows_[0]; }

  // Looks at the states before a step, which may be `first()`.
  void look(const T* before) {
    T *before_here = rows_[1], *skipped = rows_[2], *most = rows_[3];
    if (before != rows_[0]) {
      begin(before_here);
      std::copy(before, before + n_, before_here);
    } else {
      std::copy(before - 2, before + n_, before_here - 2);
    }
    for (std::int64_t s = 0; s < n_; ++s) {
      const T own = before_here[s], one = before_here[s - 1], two = skips_[s] ? before_here[s - 2] : impossible<T>;
      const T larger = own < one ? one : own, largest = larger < two ? two : larger;
      skipped[s] = two;
      most[s] = largest - largest == T(0) ? largest : T(0);
    }
  }

  // body(i, part, own, one, two, most) with the exponentials of what was looked at, below the largest.
  template <class Body>
  void each(const Body& body) const {
    const T *before = rows_[1], *skipped = rows_[2], *most = rows_[3];
    row_loop_of<T>(n_, [=](std::int64_t i, auto part) {
      using exact::exp;
      const auto m = part.load(most + i);
      body(i, part, exp(part.load(before + i) - m), exp(part.load(before - 1 + i) - m), exp(part.load(skipped + i) - m),
           m);
    });
  }

  const ThreeTerms sum;

 private:
  void begin(T* row) const { std::fill(row - 2, row + n_, impossible<T>); }

  std::int64_t n_;
  const bool* skips_;
  PaddedStates<T> rows_;
};

template <class T>
void ctc_states(const Tensor& emitted, const Tensor& skips, const Tensor& lengths, const Contract& contract,
                const Tensor& output, const ExecContext& exec) {
  const std::int64_t steps = emitted.size[0], batch = emitted.size[1], states = emitted.size[2];
  if (output.count() == 0) return;
  const std::int64_t grain = std::max<std::int64_t>(1, states_a_thread / (steps * states));
  parallel_for(batch, grain, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t example = begin; example < end; ++example) {
      const std::int64_t length = lengths.as<std::int64_t>()[example];
      StateSources<T> sources(states, skips.as<bool>() + example * states, contract);
      const T* before = sources.first();
      for (std::int64_t t = 0; t < steps; ++t) {
        const std::int64_t at = (t * batch + example) * states;
        T* const out = output.as<T>() + at;
        if (t < length) {
          const T* const e = emitted.as<T>() + at;
          sources.look(before);
          sources.each([=, sum = sources.sum](std::int64_t i, auto part, auto own, auto one, auto two, auto most) {
            using exact::log;
            part.store(out + i, canonical((log(sum(own, one, two)) + most) + part.load(e + i)));
          });
        } else {
          std::copy(before, before + states, out);
        }
        before = out;
      }
    }
  });
}

// With respect to what is emitted: g the gradient of a[t] and of what follows from it, from the last step on.
template <class T>
void ctc_states_backward(const Tensor& grad, const Tensor& alphas, const Tensor& skips, const Tensor& lengths,
                         const Contract& contract, const Tensor& output, const ExecContext& exec) {
  const std::int64_t steps = grad.size[0], batch = grad.size[1], states = grad.size[2];
  if (output.count() == 0) return;
  const std::int64_t grain = std::max<std::int64_t>(1, states_a_thread / (steps * states));
  parallel_for(batch, grain, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t example = begin; example < end; ++example) {
      const std::int64_t length = lengths.as<std::int64_t>()[example];
      const bool* const skip = skips.as<bool>() + example * states;
      StateSources<T> sources(states, skip, contract);
      const PaddedStates<T> rows(states, 4);
      T *const after = rows[0], *const to_own = rows[1], *const to_one = rows[2], *const to_two = rows[3];
      for (std::int64_t t = steps; t-- > 0;) {
        const std::int64_t at = (t * batch + example) * states;
        const bool counts = t < length;
        const T* const g = grad.as<T>() + at;
        T* const out = output.as<T>() + at;
        for (std::int64_t s = 0; s < states; ++s) {
          after[s] = after[s] + g[s];
          out[s] = counts ? canonical(after[s]) : T(0);
          if (counts) after[s] = T(0);
        }
        sources.look(t == 0 ? sources.first() : alphas.as<T>() + at - batch * states);
        sources.each([=, sum = sources.sum](std::int64_t i, auto part, auto own, auto one, auto two, auto) {
          const auto each = part.load(out + i) / (sum(own, one, two));
          part.store(to_own + i, each * own);
          part.store(to_one + i, each * one);
          part.store(to_two + i, each * two);
        });
        for (std::int64_t s = 0; s < states; ++s) to_two[s] = skip[s] ? to_two[s] : T(0);
        for (std::int64_t s = 0; s < states; ++s)
          after[s] = after[s] + (sources.sum(to_own[s], to_one[s + 1], to_two[s + 2]) + T(0));
      }
    }
  });
}

const AddKernel ctc_states_kernels = add_kernels<&ctc_states<float>, &ctc_states<double>>("ctc_states", Layout::rows);
const AddKernel ctc_states_backward_kernels =
    add_kernels<&ctc_states_backward<float>, &ctc_states_backward<double>>("ctc_states_backward", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
