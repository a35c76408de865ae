// Elements at given positions of each side, and the sum of the gradients of each element (interpolate.md).
//
//   for p < outer, o < outputs, c < inner:  (outer, sides..., inner) -> (outer, outputs..., inner)
//     out[p, o, c] = x[p, at[o], c], bytes that are moved
//     out[p, i, c] = the sum of grad[p, o, c] over the o with at[o] = i, in row-major order
#include <cstring>
#include <vector>

#include "pool/window_sums.hpp"

namespace repdl::cpu {
namespace {

// The lists of the sides that there are, one position each, from a list of all.
void read_places(Ints at, Ints counts, SideLists* lists) {
  const auto sides = static_cast<int>(counts.length);
  std::size_t next = 0;
  for (int d = 0; d < most_sides - sides; ++d) lists[d] = SideLists::one();
  for (int d = 0; d < sides; ++d)
    for (std::int64_t o = 0; o < counts[d]; ++o, ++next) lists[most_sides - sides + d].add(at[next], at[next] + 1);
}

// to[o] = from[at[o]], items of `inner` elements.
template <class T>
void select_items(const T* from, const std::vector<std::int64_t>& at, bool doubles, std::int64_t inner, T* to) {
  const auto count = static_cast<std::int64_t>(at.size());
  if (inner > 1) {
    for (std::int64_t o = 0; o < count; ++o)
      std::memcpy(to + o * inner, from + at[o] * inner, sizeof(T) * static_cast<std::size_t>(inner));
  } else if (doubles) {  // which vectors interleave
    REPDL_ROUTE("nearest: doubles", sizeof(T));
    for (std::int64_t i = 0; i < count / 2; ++i) to[2 * i] = to[2 * i + 1] = from[i];
  } else {
    for (std::int64_t o = 0; o < count; ++o) to[o] = from[at[o]];
  }
}

template <class T>
void nearest_of(const Tensor& input, const Images& in, const Images& out, const SideLists* lists, const Tensor& output,
                const ExecContext& exec) {
  const InForm form(input, in.inner > 1);
  const T* x = form.as<T>();
  T* y = output.as<T>();
  const std::int64_t height = out.side[1], rows = out.side[0] * height, length = out.side[2] * out.inner;
  const std::vector<std::int64_t>& at = lists[2].at;
  bool doubles = out.side[2] == 2 * in.side[2];
  for (std::size_t o = 0; o < at.size(); ++o) doubles &= at[o] == static_cast<std::int64_t>(o / 2);
  parallel_for(out.outer * rows, std::max<std::int64_t>(1, (1 << 15) / length), exec.threads,
               [&](std::int64_t begin, std::int64_t end) {
                 std::int64_t before = -1;
                 for (std::int64_t row = begin; row < end; ++row) {
                   const std::int64_t d = lists[0].at[row / height % out.side[0]], h = lists[1].at[row % height];
                   const std::int64_t source = (row / rows * in.side[0] + d) * in.side[1] + h;
                   T* to = y + row * length;
                   if (source == before)
                     std::memcpy(to, to - length, sizeof(T) * static_cast<std::size_t>(length));
                   else
                     select_items(x + source * in.side[2] * in.inner, at, doubles, in.inner, to);
                   before = source;
                 }
               });
}

void nearest(const Tensor& input, Ints at, Ints size, const Tensor& output, const ExecContext& exec) {
  if (output.count() == 0) return;
  const Images out(output), in(input, out.inner > 1);
  SideLists lists[most_sides];
  read_places(at, size, lists);
  switch (bytes_of(input.dtype)) {
    case 8: return nearest_of<std::uint64_t>(input, in, out, lists, output, exec);
    case 4: return nearest_of<std::uint32_t>(input, in, out, lists, output, exec);
    default: return nearest_of<std::uint16_t>(input, in, out, lists, output, exec);
  }
}

template <class T>
void nearest_backward(const Tensor& grad, Ints at, Ints, const Contract& contract, const Tensor& output,
                      const ExecContext& exec) {
  if (output.count() == 0) return;
  const Images out(output), in(grad, out.inner > 1);
  const InForm form(grad, out.inner > 1);
  SideLists lists[most_sides];
  read_places(at, {grad.size + 2, static_cast<std::size_t>(grad.dims - 2)}, lists);
  for (int d = 0; d < most_sides; ++d) lists[d] = lists[d].inverse(out.side[d]);
  const WindowSums<T> sums{in, out, {lists[0], lists[1], lists[2]}, {}, {}, contract};
  sums.run(form.template as<T>(), output.as<T>(), exec.threads);
}

const AddKernel nearest_kernels = add_kernels<&nearest, &nearest>("nearest");
const AddKernel nearest_backward_kernels =
    add_kernels<&nearest_backward<float>, &nearest_backward<double>>("nearest_backward");

}  // namespace
}  // namespace repdl::cpu
