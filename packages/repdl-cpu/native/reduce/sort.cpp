// The elements of rows in order, or some of them (max.md).
//
//   for r < rows:  (rows, n) -> (rows, count), (rows, count)
//     values and indices of the elements number first .. first + count - 1 of a stable sort
//
// An element and its index are one entry: no two are equal, so no bit depends on how entries are sorted.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/routes.hpp"
#include "base/scratch.hpp"
#include "base/threads.hpp"
#include "base/tuned.hpp"
#include "repdl/backend.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t elements_a_sort_thread = tuned(1 << 13, 4);
constexpr std::int64_t most_chosen = tuned(64, 3);  // that are kept in order while the row goes by
constexpr std::int64_t keys_at_once = tuned(64, 4);

template <class T>
using SortKey = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

template <class T>
struct Keyed {
  SortKey<T> key;
  std::uint32_t index;

  bool operator<(const Keyed& other) const { return key != other.key ? key < other.key : index < other.index; }
};

// Ascends with x: both zeros are equal, and every NaN, the largest.
template <class T>
[[gnu::always_inline]] inline SortKey<T> key_of(T x, bool descending) {
  constexpr SortKey<T> most = std::numeric_limits<SortKey<T>>::max();
  SortKey<T> bits;
  std::memcpy(&bits, &x, sizeof bits);
  const SortKey<T> size = bits & most, key = x != x ? most : bits < 0 ? -size : size;
  return descending ? ~key : key;
}

// The first `count` entries of a row in order, of which there are more.
template <class T>
void choose(const T* x, std::int64_t n, std::int64_t count, bool descending, Keyed<T>* chosen) {
  SortKey<T> keys[keys_at_once];
  for (std::int64_t i = 0; i < count; ++i) chosen[i] = {key_of(x[i], descending), static_cast<std::uint32_t>(i)};
  std::sort(chosen, chosen + count);
  for (std::int64_t first = count; first < n; first += keys_at_once) {
    const std::int64_t here = std::min(n - first, keys_at_once);
    SortKey<T> least = std::numeric_limits<SortKey<T>>::max();
    for (std::int64_t i = 0; i < here; ++i) {
      keys[i] = key_of(x[first + i], descending);
      least = keys[i] < least ? keys[i] : least;
    }
    if (least >= chosen[count - 1].key) continue;  // of equal ones the first stays
    for (std::int64_t i = 0; i < here; ++i) {
      if (keys[i] >= chosen[count - 1].key) continue;
      std::int64_t at = count - 1;
      for (; at > 0 && keys[i] < chosen[at - 1].key; --at) chosen[at] = chosen[at - 1];
      chosen[at] = {keys[i], static_cast<std::uint32_t>(first + i)};
    }
  }
}

// Entries first .. end of the row in order; those before are somewhere in front of them.
template <class T>
const Keyed<T>* sorted(const T* x, std::int64_t n, std::int64_t first, std::int64_t end, bool descending,
                       Keyed<T>* entries) {
  if (end <= most_chosen && end < n) {
    REPDL_ROUTE("sort: chosen", sizeof(T));
    choose(x, n, end, descending, entries);
    return entries + first;
  }
  for (std::int64_t i = 0; i < n; ++i) entries[i] = {key_of(x[i], descending), static_cast<std::uint32_t>(i)};
  if (first > 0) std::nth_element(entries, entries + first, entries + n);
  if (end < n) std::nth_element(entries + first, entries + end, entries + n);
  std::sort(entries + first, entries + end);
  return entries + first;
}

template <class T>
void sort(const Tensor& input, bool descending, std::int64_t first, std::int64_t count, const Tensor& values,
          const Tensor& indices, const ExecContext& exec) {
  const std::int64_t n = input.size[input.dims - 1];
  if (indices.count() == 0) return;
  parallel_for(indices.count() / count, elements_a_sort_thread / n, exec.threads,
               [&](std::int64_t from, std::int64_t until) {
                 const Scratch<Keyed<T>> entries(n);
                 for (std::int64_t r = from; r < until; ++r) {
                   const T* const x = input.as<T>() + r * n;
                   const Keyed<T>* const found = sorted(x, n, first, first + count, descending, entries.data());
                   for (std::int64_t i = 0; i < count; ++i) {
                     values.as<T>()[r * count + i] = x[found[i].index];
                     indices.as<std::int64_t>()[r * count + i] = found[i].index;
                   }
                 }
               });
}

const AddKernel sort_kernels = add_kernels<&sort<float>, &sort<double>>("sort", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
