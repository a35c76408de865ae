// The signature of a call: all about its arguments, except for the values and addresses of tensors.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "repdl/python/torch_state.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// The tensors of a call, each once, and their memory.
struct CallTensors {
  PyObject* const* objects;
  const DLTensor* memory;
  int count;
};

// It owns references to the tensors: other threads may change a list that has them.
class Signature {
 public:
  static constexpr int most_words = 1024, most_tensors = 64, most_scalars = 16;  // on the stack of a call

  Signature() = default;
  Signature(const Signature&) = delete;
  Signature& operator=(const Signature&) = delete;
  ~Signature() { release(); }

  // Reads a call; with variable scalars, those that `is_variable` are no part of the signature. False, or an exception,
  // if an argument is of another type, or torch has more to do with it; Python's error may be set then.
  bool read(PyObject* const* arguments, Py_ssize_t positional, PyObject* names, bool has_variable_scalars) {
    const TorchState& state = TorchState::get();
    release();
    has_variable_scalars_ = has_variable_scalars;
    any_grad_ = false;
    words_ = scalars_ = 0;
    grad_mode_ = state.is_grad_enabled.is(Py_True);
    const std::int64_t threads = python::integer(state.threads.ask().get());
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    // A recording for all scalars is not one for a signature that has their values.
    if (!add(threads << 2 | has_variable_scalars << 1 | grad_mode_, positional)) return false;
    for (Py_ssize_t i = 0; i < positional; ++i)
      if (!value(arguments[i])) return false;
    for (Py_ssize_t i = 0; i < named; ++i)
      if (!text(PyTuple_GET_ITEM(names, i)) || !value(arguments[positional + i])) return false;
    return tensors_ > 0;
  }

  std::uint64_t hash() const {
    std::uint64_t result = 0;
    for (int i = 0; i < words_; ++i) {
      result = (result ^ static_cast<std::uint64_t>(word_[i])) * 0x9E3779B97F4A7C15u;
      result ^= result >> 32;
    }
    return result;
  }

  const std::int64_t* begin() const { return word_.data(); }
  const std::int64_t* end() const { return word_.data() + words_; }

  // Whether gradients are recorded through the call.
  bool differentiates() const { return any_grad_; }

  // The tensors in the order of the arguments.
  CallTensors tensors() const { return {tensor_.data(), memory_.data(), tensors_}; }

  // Adds a tensor that is no argument and no part of the signature.
  void append(PyObject* object) {
    memory_[tensors_] = Torch::get().dltensor(object);
    add_tensor(object);
  }

  // Whether a function sees the sign of a number only: it is neither 0 nor 1 nor outside of a float's normal numbers.
  static bool is_variable(double number) {
    const double size = std::fabs(number);
    return size > 0x1p-126 && size < 0x1p127 && size != 1;
  }

  bool has_variable_scalars() const { return has_variable_scalars_; }

  // The floating-point numbers, in the order of the arguments; none if all are part of the signature.
  Span<double> scalars() const { return {scalar_.data(), static_cast<std::size_t>(scalars_)}; }

 private:
  enum Tag { none, boolean, integer, real, runtime_scalar, characters, sequence, dtype, plain_tensor, same_tensor };

  template <class... Words>
  bool add(Words... words) {
    if (words_ + static_cast<int>(sizeof...(words)) > most_words) return false;
    ((word_[words_++] = static_cast<std::int64_t>(words)), ...);
    return true;
  }

  void add_tensor(PyObject* object) {
    Py_INCREF(object);
    tensor_[tensors_++] = object;
  }

  void release() {
    while (tensors_ > 0) Py_DECREF(tensor_[--tensors_]);
  }

  bool value(PyObject* object) {
    const TorchState& state = TorchState::get();
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
    if (type == state.tensor || type == state.parameter) return tensor(object);
    if (object == Py_None) return add(none);
    if (PyBool_Check(object)) return add(boolean, object == Py_True);
    if (PyLong_CheckExact(object)) {
      const long long number = PyLong_AsLongLong(object);
      return !(number == -1 && PyErr_Occurred()) && add(integer, number);
    }
    if (PyFloat_CheckExact(object)) {
      const double number = PyFloat_AS_DOUBLE(object);
      if (has_variable_scalars_) {
        if (scalars_ == most_scalars) return false;
        scalar_[scalars_++] = number;
        if (is_variable(number)) return add(runtime_scalar, number < 0);
      }
      std::int64_t bits;
      static_assert(sizeof bits == sizeof number);
      std::copy_n(reinterpret_cast<const char*>(&number), sizeof bits, reinterpret_cast<char*>(&bits));
      return add(real, bits);
    }
    if (PyUnicode_CheckExact(object)) return text(object);
    if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
      const Py_ssize_t length = PySequence_Fast_GET_SIZE(object);
      if (!add(sequence, length)) return false;
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
        const Ref item = owned(PySequence_Fast_GET_ITEM(object, i));
        if (PyTuple_CheckExact(item.get()) || PyList_CheckExact(item.get()) || !value(item.get())) return false;
      }
      return PySequence_Fast_GET_SIZE(object) == length;
    }
    if (reinterpret_cast<PyTypeObject*>(type) == Torch::get().dtype_type)  // a dtype is one object, which stays
      return add(dtype, reinterpret_cast<std::intptr_t>(object));
    return false;
  }

  bool text(PyObject* object) {
    Py_ssize_t length = 0;
    const char* first = PyUnicode_AsUTF8AndSize(object, &length);
    const int words = static_cast<int>((length + 7) / 8);
    if (first == nullptr || length > 64 || words_ + words + 2 > most_words) return false;
    add(characters, length);
    if (words > 0) word_[words_ + words - 1] = 0;
    std::copy_n(first, length, reinterpret_cast<char*>(&word_[words_]));
    words_ += words;
    return true;
  }

  bool tensor(PyObject* object) {
    for (int i = 0; i < tensors_; ++i)
      if (tensor_[i] == object) return add(same_tensor, i);
    const TorchState& state = TorchState::get();
    if (tensors_ == most_tensors) return false;
    DLTensor& memory = memory_[tensors_];
    if (Torch::get().exchange->tensor_from_object(object, &memory) != 0) return false;
    if (memory.data == nullptr && std::find(memory.size, memory.size + memory.dims, 0) == memory.size + memory.dims)
      return false;  // elements without memory, as torch's derivatives have for zeros
    if (!state.is_negative.is(Py_False, object)) return false;
    bool grad = false;
    if (grad_mode_) {
      grad = state.requires_grad.is(Py_True, object);
      any_grad_ = any_grad_ || grad;
    }
    add_tensor(object);
    const std::int64_t kind = plain_tensor | grad << 8 | std::int64_t{memory.code} << 16 |
                              std::int64_t{memory.bits} << 24 | std::int64_t{memory.lanes} << 32;
    if (!add(kind, memory.dims, std::int64_t{memory.device_type} << 32 | memory.device_id)) return false;
    if (words_ + 2 * memory.dims > most_words) return false;
    for (int d = 0; d < memory.dims; ++d) word_[words_++] = memory.size[d];
    for (int d = 0; d < memory.dims; ++d) word_[words_++] = memory.stride[d];
    return true;
  }

  bool has_variable_scalars_ = false, grad_mode_ = false, any_grad_ = false;
  int words_ = 0, tensors_ = 0, scalars_ = 0;
  std::array<std::int64_t, most_words> word_;  // the first `words_`
  std::array<PyObject*, most_tensors> tensor_;
  std::array<DLTensor, most_tensors> memory_;
  std::array<double, most_scalars> scalar_;
};

}  // namespace repdl::python
#pragma GCC visibility pop
