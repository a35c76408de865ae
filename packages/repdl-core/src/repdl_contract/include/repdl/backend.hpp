// What a native backend includes: tensors as kernels see them, and the table of kernels.
//
// A kernel is a function with the arguments of an op's schema, then the outputs, then where to run:
//
//   void softmax(const Tensor& input, std::int64_t dim, const Contract& contract,
//                const Tensor& output, const ExecContext& exec);
//   const AddKernel added = add_kernel<&softmax>("softmax", DType::float32, Layout::last);
//
// That is all: `repdl/python.hpp` makes a module of the table, `repdl.registry.native` the implementations of its
// ops. Outputs are allocated by core, arguments are checked before. A kernel sets the floating-point
// environment that it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "repdl/contract/order.hpp"

namespace repdl {

enum class DType { boolean, uint8, int8, int16, int32, int64, bfloat16, float16, float32, float64 };

template <class T>
constexpr DType dtype_of = std::is_same_v<T, double> ? DType::float64 : DType::float32;

// A strided tensor; without dtype-dependent meaning of its address. Sizes and strides are in elements.
// An argument that is None has no sizes and `given` false.
struct Tensor {
  void* data = nullptr;
  const std::int64_t* size = nullptr;
  const std::int64_t* stride = nullptr;
  int dims = 0;
  DType dtype = DType::float32;
  bool given = false;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  [[gnu::noinline]] std::int64_t count() const {  // of elements; compilers make vector code of the loop, for each use
    std::int64_t result = 1;
    for (int d = 0; d < dims; ++d) result *= size[d];
    return result;
  }
};

template <class T>
struct Span {
  const T* first = nullptr;
  std::size_t length = 0;

  const T& operator[](std::size_t i) const { return first[i]; }
  const T* begin() const { return first; }
  const T* end() const { return first + length; }
};
using Tensors = Span<Tensor>;
using Ints = Span<std::int64_t>;

// Where a kernel runs: on how many threads, or on which device and stream.
struct ExecContext {
  const char* op;
  int threads = 1;
  int device = 0;
  void* stream = nullptr;
  void* (*allocate)(void* owner, std::size_t bytes) = nullptr;
  void* owner = nullptr;

  // Memory on the device for intermediate results, aligned to 64 bytes. It is there until the call ends
  // or, on a stream, until what was launched has run.
  template <class T>
  T* workspace(std::int64_t count) const {
    return count == 0 ? nullptr : static_cast<T*>(allocate(owner, static_cast<std::size_t>(count) * sizeof(T)));
  }
};

// How a kernel wants its tensors. Whatever the caller's are, core brings them into that form.
enum class Layout {
  strided,   // as they are, with any strides; outputs too
  in_place,  // strided, and each element of the output is written after all that it is computed from was read, and
             // nothing else is: an operand that is the output itself is no danger
  rows,      // row-major
  last,      // row-major, with the dimension that the op works along as the last one
  flat,      // all in the order in memory of the first output, which has no gaps: elements in a row
  lists,     // lists of tensors: those of one index are in one order in memory, without gaps
};

// One argument of a call.
using Argument =
    std::variant<std::monostate, Tensor, Tensors, Ints, std::int64_t, double, bool, std::string_view, DType, Contract>;

struct Kernel {
  const char* op;
  DType dtype;  // of the arithmetic
  Layout layout;
  std::size_t arguments;  // with outputs
  void (*call)(const Argument* arguments, const ExecContext& exec);
};

// Whatever the flags of the compiler: a process has several extension modules with these functions, each its own.
#pragma GCC visibility push(hidden)

// Those of this module, each where it is for good: what Python has of it points there.
inline std::deque<Kernel>& kernels() {
  static std::deque<Kernel> table;
  return table;
}

namespace detail {

[[noreturn, gnu::noinline, gnu::cold]] inline void wrong_type(const ExecContext& exec, std::size_t index) {
  throw std::logic_error(std::string(exec.op) + ": argument " + std::to_string(index) +
                         " is not of the type that the kernel has in its place; expected the op's schema");
}

template <class T>
decltype(auto) read(const Argument& argument, const ExecContext& exec, std::size_t index) {
  using Value = std::remove_cv_t<std::remove_reference_t<T>>;
  if constexpr (std::is_same_v<Value, double>) {
    if (const auto* whole = std::get_if<std::int64_t>(&argument)) return static_cast<double>(*whole);
  }
  if constexpr (std::is_same_v<Value, Tensor> || std::is_same_v<Value, Tensors> || std::is_same_v<Value, Ints>) {
    if (std::holds_alternative<std::monostate>(argument)) return Value{};
  }
  const auto* value = std::get_if<Value>(&argument);
  if (value == nullptr) wrong_type(exec, index);
  return static_cast<Value>(*value);
}

// One function for all kernels of a signature: inlined into each, it would be a third of the pointwise kernels' code.
template <class... Parameters, std::size_t... I>
[[gnu::noinline]] void call(void (*function)(Parameters...), std::index_sequence<I...>, const Argument* arguments,
                            const ExecContext& exec) {
  using List = std::tuple<Parameters...>;
  function(read<std::tuple_element_t<I, List>>(arguments[I], exec, I)..., exec);
}

template <class... Parameters>
constexpr std::size_t count(void (*)(Parameters...)) {
  return sizeof...(Parameters) - 1;  // ExecContext is the last
}

}  // namespace detail

struct AddKernel {};

// Enters `function` into the table of this module.
template <auto function>
AddKernel add_kernel(const char* op, DType dtype, Layout layout = Layout::strided) {
  constexpr std::size_t arguments = detail::count(function);
  kernels().push_back({op, dtype, layout, arguments, [](const Argument* given, const ExecContext& exec) {
                         detail::call(function, std::make_index_sequence<arguments>(), given, exec);
                       }});
  return {};
}

// The same for an op with a function for each dtype of the arithmetic.
template <auto of_float, auto of_double>
AddKernel add_kernels(const char* op, Layout layout = Layout::strided) {
  add_kernel<of_float>(op, DType::float32, layout);
  return add_kernel<of_double>(op, DType::float64, layout);
}

#pragma GCC visibility pop

}  // namespace repdl
