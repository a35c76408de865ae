// What a recorded call is made of, as `repdl.replay` gives it to `Recording(...)`: read from tuples and checked.
#pragma once

#include <cstring>

#include "repdl/python/callee.hpp"
#include "repdl/python/kernel.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// How many tensors a call has to have, and how many numbers: everything that is numbered tells it.
class Needs {
 public:
  // `made`: sources of memory beside the tensors of the call, which come before them.
  explicit Needs(std::size_t made) : made_(static_cast<std::ptrdiff_t>(made)) {}

  // The tensor `index` of the call.
  std::size_t tensor(std::ptrdiff_t index) {
    at_least(tensors_, index, "a tensor of a call");
    return static_cast<std::size_t>(index);
  }
  // The source of memory `index`, whichever it is.
  std::size_t source(std::ptrdiff_t index) {
    std::ptrdiff_t known = made_ + tensors_;
    at_least(known, index, "a source of memory");
    tensors_ = std::max(tensors_, known - made_);
    return static_cast<std::size_t>(index);
  }
  std::size_t number(std::ptrdiff_t index) {
    at_least(numbers_, index, "a number of a call");
    return static_cast<std::size_t>(index);
  }
  void tensors(std::ptrdiff_t count) { tensors_ = std::max(tensors_, count); }

  std::ptrdiff_t tensors() const { return tensors_; }
  std::ptrdiff_t numbers() const { return numbers_; }

 private:
  static void at_least(std::ptrdiff_t& count, std::ptrdiff_t index, const char* what) {
    if (index < 0) raise(PyExc_ValueError, "Recording: %s has the index %zd, expected 0 or more", what, index);
    count = std::max(count, index + 1);
  }

  std::ptrdiff_t made_, tensors_ = 1, numbers_ = 0;  // one tensor says where kernels run
};

// An index of what there are `count` of.
inline std::size_t index_below(std::ptrdiff_t index, std::size_t count, const char* what) {
  if (index < 0 || static_cast<std::size_t>(index) >= count)
    raise(PyExc_ValueError, "Recording: %s has the index %zd, expected 0 or more and less than %zu", what, index,
          count);
  return static_cast<std::size_t>(index);
}

// A kernel that ran.
struct Step {
  static constexpr std::size_t most_addresses = Kept::most + Kept::most_tensors;

  const KeptFunctions* functions = nullptr;
  void* kept = nullptr;
  int threads = 1, device = 0;
  std::vector<std::pair<std::size_t, std::ptrdiff_t>> places;  // source of memory, bytes from there
  std::vector<std::pair<std::ptrdiff_t, double>> numbers;      // which of the signature, or -1 and a value; or none

  // (kernel, arguments, outputs, places, numbers, threads, device)
  Step(PyObject* tuple, Needs& needs) {
    const Items items(tuple, "Recording: a step", 7), arguments(items[1], "Recording: the arguments of a step");
    const Items given(items[3], "Recording: the places of a step"), free(items[4], "Recording: the numbers of a step");
    Items(items[2], "Recording: the outputs of a step");
    for (Py_ssize_t i = 0; i < given.size(); ++i) {
      const Items place(given[i], "Recording: a place of a step", 2);
      places.emplace_back(needs.source(place.number(0)), place.number(1));
    }
    for (Py_ssize_t i = 0; i < free.size(); ++i) {
      const Items pair(free[i], "Recording: a number of a step", 2);
      const std::ptrdiff_t index = pair.number(0);
      if (index >= 0) needs.number(index);
      numbers.emplace_back(index, pair.real(1));
    }
    Py_ssize_t floats = 0;
    for (Py_ssize_t i = 0; i < arguments.size(); ++i) floats += PyFloat_Check(arguments[i]) != 0;
    if (free.size() > 0 && free.size() != floats)
      raise(PyExc_ValueError, "Recording: got %zd numbers of a step, its arguments have %zd", free.size(), floats);
    threads = static_cast<int>(items.number(5));
    device = static_cast<int>(items.number(6));
    if (threads < 1) raise(PyExc_ValueError, "Recording: a step has %d threads, expected 1 or more", threads);
    const Ref capsule = checked(PyObject_GetAttrString(items[0], kept_attribute));
    functions = static_cast<const KeptFunctions*>(PyCapsule_GetPointer(capsule.get(), kept_name));
    if (functions == nullptr) throw PythonError{};
    keep(items);
  }
  Step(Step&& other) noexcept { *this = std::move(other); }
  Step& operator=(Step&& other) noexcept {
    std::swap(functions, other.functions);
    std::swap(kept, other.kept);
    std::swap(threads, other.threads);
    std::swap(device, other.device);
    std::swap(places, other.places);
    std::swap(numbers, other.numbers);
    return *this;
  }
  ~Step() {
    if (kept != nullptr) functions->drop(kept);
  }

 private:
  void keep(const Items& items) {
    std::size_t tensors = 0;
    void* made = functions->keep(items[0], items[1], items[2], &tensors);
    if (made == nullptr) throw PythonError{};
    if (tensors != places.size() || tensors > most_addresses || numbers.size() > Kept::most) {
      functions->drop(made);
      raise(PyExc_ValueError, "Recording: a step has %zu places and %zu numbers, expected %zu, at most %zu, and %zu",
            places.size(), numbers.size(), tensors, most_addresses, Kept::most);
    }
    kept = made;
  }
};

// A 0-D constant that is a number of the call.
struct FreeConstant {
  std::size_t index, number;
  bool is_double;  // else float

  FreeConstant(PyObject* tuple, std::size_t constants, Needs& needs) {
    const Items items(tuple, "Recording: a constant that is a number", 3);
    index = index_below(items.number(0), constants, "a constant");
    number = needs.number(items.number(1));
    const std::ptrdiff_t size = items.number(2);
    if (size != sizeof(double) && size != sizeof(float))
      raise(PyExc_ValueError, "Recording: a constant that is a number has %zd bytes, expected 4 or 8", size);
    is_double = size == sizeof(double);
  }

  // Writes a number of the call, at `place`, where there is room for a double.
  void put(double value, void* place) const {
    if (is_double)
      std::memcpy(place, &value, sizeof value);
    else
      put_float(value, place);
  }

 private:
  // The float nearest to a double that is among a float's normal numbers: in integers, whatever the thread's
  // floating-point environment.
  static void put_float(double number, void* place) {
    std::uint64_t bits;
    static_assert(sizeof bits == sizeof number);
    std::memcpy(&bits, &number, sizeof bits);
    const std::uint64_t sign = bits >> 63 << 31, size = bits & ~(std::uint64_t{1} << 63);
    const std::uint64_t scaled = size - (std::uint64_t{1023 - 127} << 52);
    const auto rounded = static_cast<std::uint32_t>(sign | (scaled + 0x0FFFFFFF + (scaled >> 29 & 1)) >> 29);
    std::memcpy(place, &rounded, sizeof rounded);
  }
};

// Memory of a tensor of the call, from its address on.
struct Extent {
  std::size_t tensor;
  std::ptrdiff_t bytes;
  bool written;

  Extent(PyObject* tuple, Needs& needs) {
    const Items items(tuple, "Recording: memory of a tensor", 3);
    tensor = needs.tensor(items.number(0));
    bytes = items.number(1);
    written = items[2] == Py_True;
  }
};

// Of all of a new tensor into one of the call.
struct Copy {
  std::size_t source, target, bytes;

  Copy(PyObject* tuple, Needs& needs) {
    const Items items(tuple, "Recording: a copy", 3);
    source = needs.source(items.number(0));
    target = needs.tensor(items.number(1));
    if (items.number(2) < 0)
      raise(PyExc_ValueError, "Recording: a copy has %zd bytes, expected 0 or more", items.number(2));
    bytes = static_cast<std::size_t>(items.number(2));
  }
};

}  // namespace repdl::python
#pragma GCC visibility pop
