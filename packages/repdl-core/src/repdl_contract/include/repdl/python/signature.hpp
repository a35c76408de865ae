// The signature of a call: all about its arguments, except for the values and addresses of tensors.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "repdl/python/buffer.hpp"
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
  static constexpr int most_words = 1 << 16, most_tensors = 4096, most_scalars = 16;

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
    word_.resize(0);
    scalars_ = 0;
    grad_mode_ = state.is_grad_enabled.is(Py_True);
    const std::int64_t threads = python::integer(state.threads.ask().get());
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    // A recording for all scalars is not one for a signature that has their values.
    if (!add(threads << 2 | has_variable_scalars << 1 | grad_mode_, positional)) return false;
    for (Py_ssize_t i = 0; i < positional; ++i)
      if (!value(arguments[i])) return false;
    for (Py_ssize_t i = 0; i < named; ++i)
      if (!text(PyTuple_GET_ITEM(names, i)) || !value(arguments[positional + i])) return false;
    return tensor_.size() > 0;
  }

  std::uint64_t hash() const {
    std::uint64_t result = 0;
    for (const std::int64_t word : *this) {
      result = (result ^ static_cast<std::uint64_t>(word)) * 0x9E3779B97F4A7C15u;
      result ^= result >> 32;
    }
    return result;
  }

  const std::int64_t* begin() const { return word_.data(); }
  const std::int64_t* end() const { return word_.data() + word_.size(); }

  // Whether gradients are recorded through the call.
  bool differentiates() const { return any_grad_; }

  // The tensors in the order of the arguments.
  CallTensors tensors() const { return {tensor_.data(), memory_.data(), static_cast<int>(tensor_.size())}; }

  // Adds a tensor that is no argument and no part of the signature.
  void append(PyObject* object) { add_tensor(object, Torch::get().dltensor(object)); }

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
    if (word_.size() + sizeof...(words) > most_words) return false;
    (word_.push_back(static_cast<std::int64_t>(words)), ...);
    return true;
  }

  void add_tensor(PyObject* object, const DLTensor& memory) {
    memory_.push_back(memory);
    tensor_.push_back(object);
    Py_INCREF(object);
    if (tensor_.size() > few) later_.emplace(object, static_cast<int>(tensor_.size()) - 1);
  }

  // The index of a tensor that the call has already, or -1.
  int index_of(PyObject* object) const {
    const std::size_t searched = std::min(tensor_.size(), few);
    for (std::size_t i = 0; i < searched; ++i)
      if (tensor_[i] == object) return static_cast<int>(i);
    if (later_.empty()) return -1;
    const auto found = later_.find(object);
    return found == later_.end() ? -1 : found->second;
  }

  void release() {
    if (!later_.empty()) later_.clear();
    for (std::size_t i = 0; i < tensor_.size(); ++i) Py_DECREF(tensor_[i]);
    tensor_.resize(0);
    memory_.resize(0);
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
        const Ref item = item_of(object, i);
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
    if (first == nullptr || length > 64) return false;
    if (!add(characters, length)) return false;
    for (Py_ssize_t i = 0; i < length; i += 8) {
      std::int64_t word = 0;
      std::copy_n(first + i, std::min<Py_ssize_t>(8, length - i), reinterpret_cast<char*>(&word));
      if (!add(word)) return false;
    }
    return true;
  }

  bool tensor(PyObject* object) {
    if (const int same = index_of(object); same >= 0) return add(same_tensor, same);
    const TorchState& state = TorchState::get();
    if (tensor_.size() == most_tensors) return false;
    DLTensor memory;
    if (Torch::get().exchange->tensor_from_object(object, &memory) != 0) return false;
    if (memory.data == nullptr && std::find(memory.size, memory.size + memory.dims, 0) == memory.size + memory.dims)
      return false;  // elements without memory, as torch's derivatives have for zeros
    if (!state.is_negative.is(Py_False, object)) return false;
    bool grad = false;
    if (grad_mode_) {
      grad = state.requires_grad.is(Py_True, object);
      any_grad_ = any_grad_ || grad;
    }
    add_tensor(object, memory);
    const std::int64_t kind = plain_tensor | grad << 8 | std::int64_t{memory.code} << 16 |
                              std::int64_t{memory.bits} << 24 | std::int64_t{memory.lanes} << 32;
    if (!add(kind, memory.dims, std::int64_t{memory.device_type} << 32 | memory.device_id)) return false;
    for (int d = 0; d < memory.dims; ++d)
      if (!add(memory.size[d], memory.stride[d])) return false;
    return true;
  }

  bool has_variable_scalars_ = false, grad_mode_ = false, any_grad_ = false;
  static constexpr std::size_t few = 64;  // of more, only a list of tensors has
  int scalars_ = 0;
  Buffer<std::int64_t, 1024> word_;
  Buffer<PyObject*, few> tensor_;
  Buffer<DLTensor, few> memory_;
  std::unordered_map<PyObject*, int> later_;  // the index of each tensor after the first `few`
  std::array<double, most_scalars> scalar_;
};

}  // namespace repdl::python
#pragma GCC visibility pop
