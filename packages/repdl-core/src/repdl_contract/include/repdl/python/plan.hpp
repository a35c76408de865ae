// The parts of a recorded call, read from the dataclasses of repdl.callcache.plan and checked.
//
// Sources of memory are indexed: tensors of the call, positions that it draws, new tensors, constants.
#pragma once

#include <cstring>

#include "repdl/python/kernel.hpp"
#include "repdl/python/python_call.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// How many tensors and scalars a call has to have; everything that has an index of one tells it.
class Requirements {
 public:
  // `others`: sources of memory that are no tensors of the call, and come behind them.
  explicit Requirements(std::size_t others) : others_(static_cast<std::ptrdiff_t>(others)) {}

  std::size_t tensor(std::ptrdiff_t index) { return at_least(tensors_, index, "a tensor of a call"); }
  std::size_t scalar(std::ptrdiff_t index) { return at_least(scalars_, index, "a scalar of a call"); }
  std::size_t source(std::ptrdiff_t index) {
    std::ptrdiff_t sources = others_ + tensors_;
    const std::size_t result = at_least(sources, index, "a source of memory");
    tensors_ = std::max(tensors_, sources - others_);
    return result;
  }
  void tensors(std::ptrdiff_t count) { tensors_ = std::max(tensors_, count); }

  std::ptrdiff_t tensors() const { return tensors_; }
  std::ptrdiff_t scalars() const { return scalars_; }

 private:
  static std::size_t at_least(std::ptrdiff_t& count, std::ptrdiff_t index, const char* what) {
    if (index < 0) raise(PyExc_ValueError, "Recording: %s has the index %zd, expected 0 or more", what, index);
    count = std::max(count, index + 1);
    return static_cast<std::size_t>(index);
  }

  std::ptrdiff_t others_, tensors_ = 1, scalars_ = 0;  // one tensor says where kernels run
};

// An index into what there are `count` of.
inline std::size_t index_below(std::ptrdiff_t index, std::size_t count, const char* what) {
  if (index < 0 || static_cast<std::size_t>(index) >= count)
    raise(PyExc_ValueError, "Recording: %s has the index %zd, expected 0 or more and less than %zu", what, index,
          count);
  return static_cast<std::size_t>(index);
}

// `offset` bytes behind the beginning of a source of memory.
struct MemorySpan {
  std::size_t source;
  std::ptrdiff_t offset;
};

// The functions of a kernel that was built for this version; null for another object.
inline const BoundCallFunctions* bound_call_functions(PyObject* kernel) {
  const Ref capsule(PyObject_GetAttrString(kernel, bound_call_attribute));
  PyErr_Clear();
  const bool fits = capsule && PyCapsule_IsValid(capsule.get(), bound_call_capsule) != 0;
  return fits ? static_cast<const BoundCallFunctions*>(PyCapsule_GetPointer(capsule.get(), bound_call_capsule))
              : nullptr;
}

// A kernel that runs, bound to all but addresses and runtime scalars.
class Step {
 public:
  Step(PyObject* object, Requirements& needs) {
    const Fields step(object, "Recording: a step");
    step.each("spans", [&](PyObject* item) {
      const Fields span(item, "Recording: a span of a step");
      const std::size_t source = needs.source(span.number("source"));
      spans_.push_back({source, span.number("offset")});
    });
    step.each("scalars", [&](PyObject* item) {
      const Fields scalar(item, "Recording: a scalar of a step");
      const auto index = scalar.optional_number("index");
      if (index) needs.scalar(*index);
      scalars_.push_back({index, scalar.real("value")});
    });
    threads_ = static_cast<int>(step.number("threads"));
    device_ = static_cast<int>(step.number("device"));
    if (threads_ < 1) raise(PyExc_ValueError, "Recording: a step has %d threads, expected 1 or more", threads_);
    bind(step);
  }
  Step(Step&& other) noexcept { *this = std::move(other); }
  Step& operator=(Step&& other) noexcept {
    std::swap(functions_, other.functions_);
    std::swap(bound_, other.bound_);
    std::swap(threads_, other.threads_);
    std::swap(device_, other.device_);
    std::swap(spans_, other.spans_);
    std::swap(scalars_, other.scalars_);
    return *this;
  }
  ~Step() {
    if (bound_ != nullptr) functions_->drop(bound_);
  }

  // `base`: the address of each source of memory; `scalars`: of the call; `like`: a tensor beside which memory is
  // taken.
  void run(void* const* base, Span<double> scalars, void* stream, PyObject* like) const {
    Buffer<void*, 96> addresses(spans_.size());
    for (std::size_t i = 0; i < spans_.size(); ++i)
      addresses[i] = static_cast<std::byte*>(base[spans_[i].source]) + spans_[i].offset;
    double given[BoundCall::most];
    for (std::size_t i = 0; i < scalars_.size(); ++i) {
      const Scalar& scalar = scalars_[i];
      given[i] = scalar.index ? scalars[static_cast<std::size_t>(*scalar.index)] : scalar.value;
    }
    if (functions_->run(bound_, addresses.data(), scalars_.empty() ? nullptr : given, threads_, device_, stream,
                        like) != 0)
      throw PythonError{};
  }

 private:
  struct Scalar {
    std::optional<std::ptrdiff_t> index;  // of the call
    double value;                         // otherwise
  };

  void bind(const Fields& step) {
    const Ref kernel = step.get("kernel"), arguments = step.get("arguments"), outputs = step.get("outputs");
    const Items all(arguments.get(), "Recording: the arguments of a step");
    Items(outputs.get(), "Recording: the outputs of a step");
    std::size_t floats = 0;
    for (Py_ssize_t i = 0; i < all.size(); ++i) floats += PyFloat_Check(all[i]) != 0;
    if (!scalars_.empty() && scalars_.size() != floats)
      raise(PyExc_ValueError, "Recording: got %zu scalars of a step, its arguments have %zu", scalars_.size(), floats);
    functions_ = bound_call_functions(kernel.get());
    if (functions_ == nullptr)
      raise(PyExc_TypeError, "Recording: got a %s, expected a kernel of this version", Py_TYPE(kernel.get())->tp_name);
    std::size_t tensors = 0;
    bound_ = functions_->bind(kernel.get(), arguments.get(), outputs.get(), &tensors);
    if (bound_ == nullptr) throw PythonError{};
    if (tensors != spans_.size() || scalars_.size() > BoundCall::most) {
      functions_->drop(std::exchange(bound_, nullptr));
      raise(PyExc_ValueError, "Recording: a step has %zu spans and %zu scalars, expected %zu, and at most %zu",
            spans_.size(), scalars_.size(), tensors, BoundCall::most);
    }
  }

  const BoundCallFunctions* functions_ = nullptr;
  void* bound_ = nullptr;
  int threads_ = 1, device_ = 0;
  std::vector<MemorySpan> spans_;
  std::vector<Scalar> scalars_;  // empty: all are bound
};

// A 0-D constant that is a scalar of the call.
class ScalarConstant {
 public:
  ScalarConstant(PyObject* object, std::size_t constants, Requirements& needs) {
    const Fields fields(object, "Recording: a constant that is a scalar");
    constant_ = index_below(fields.number("constant"), constants, "a constant");
    scalar_ = needs.scalar(fields.number("scalar"));
    const std::ptrdiff_t size = fields.number("itemsize");
    if (size != sizeof(double) && size != sizeof(float))
      raise(PyExc_ValueError, "Recording: a constant that is a scalar has %zd bytes, expected 4 or 8", size);
    is_double_ = size == sizeof(double);
  }

  std::size_t constant() const { return constant_; }

  // Writes the scalar to an address with room for a double.
  void write(Span<double> scalars, void* address) const {
    const double value = scalars[scalar_];
    if (is_double_)
      std::memcpy(address, &value, sizeof value);
    else
      write_float(value, address);
  }

 private:
  // The float nearest to a double that is among a float's normal numbers: in integers, whatever the thread's
  // floating-point environment.
  static void write_float(double number, void* address) {
    std::uint64_t bits;
    static_assert(sizeof bits == sizeof number);
    std::memcpy(&bits, &number, sizeof bits);
    const std::uint64_t sign = bits >> 63 << 31, size = bits & ~(std::uint64_t{1} << 63);
    const std::uint64_t scaled = size - (std::uint64_t{1023 - 127} << 52);
    const auto rounded = static_cast<std::uint32_t>(sign | (scaled + 0x0FFFFFFF + (scaled >> 29 & 1)) >> 29);
    std::memcpy(address, &rounded, sizeof rounded);
  }

  std::size_t constant_, scalar_;
  bool is_double_;  // else float
};

// What a call returns.
struct Result {
  enum class Kind { none, new_tensor, argument } kind;
  std::size_t index = 0;

  Result(PyObject* object, std::size_t new_tensors, Requirements& needs) {
    const Fields result(object, "Recording: a result");
    const Ref name = result.get("kind");
    const auto is = [&](const char* known) {
      return PyUnicode_Check(name.get()) && PyUnicode_CompareWithASCIIString(name.get(), known) == 0;
    };
    if (is("none")) {
      kind = Kind::none;
    } else if (is("new")) {
      kind = Kind::new_tensor;
      index = index_below(result.number("index"), new_tensors, "a result");
    } else if (is("argument")) {
      kind = Kind::argument;
      index = needs.tensor(result.number("index"));
    } else {
      raise(PyExc_ValueError, "Recording: a result is of the kind %R, expected none, new or argument", name.get());
    }
  }
};

// A tensor of the call whose memory, if one is written, no other operand may share.
struct Operand {
  std::size_t tensor;
  std::ptrdiff_t bytes;
  bool is_written;

  Operand(PyObject* object, Requirements& needs) {
    const Fields operand(object, "Recording: an operand");
    tensor = needs.tensor(operand.number("tensor"));
    bytes = std::max<std::ptrdiff_t>(operand.number("nbytes"), 0);
    is_written = operand.flag("is_written");
  }
};

// All of a new tensor goes into a tensor of the call.
struct Copy {
  std::size_t source, target, bytes;

  Copy(PyObject* object, Requirements& needs) {
    const Fields copy(object, "Recording: a copy");
    source = needs.source(copy.number("source"));
    target = needs.tensor(copy.number("target"));
    const std::ptrdiff_t size = copy.number("nbytes");
    if (size < 0) raise(PyExc_ValueError, "Recording: a copy has %zd bytes, expected 0 or more", size);
    bytes = static_cast<std::size_t>(size);
  }
};

// A generator gives the position of `count` numbers.
struct Draw {
  Ref take, count;

  explicit Draw(PyObject* object) {
    const Fields draw(object, "Recording: a draw");
    take = draw.get("take");
    count = draw.get("count");
  }
};

}  // namespace repdl::python
#pragma GCC visibility pop
