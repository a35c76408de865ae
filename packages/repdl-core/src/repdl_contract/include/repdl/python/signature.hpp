// The signature of a call: everything about its arguments but the values and addresses of tensors.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "repdl/python/arguments.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// A function in C without arguments, or a method without, or a getter: called at once, with no look-up.
class Question {
 public:
  Question() = default;
  explicit Question(PyObject* object) {
    if (PyCFunction_CheckExact(object) && PyCFunction_GET_FLAGS(object) == METH_NOARGS) {
      method_ = PyCFunction_GET_FUNCTION(object);
      self_ = PyCFunction_GET_SELF(object);
    } else if (Py_IS_TYPE(object, &PyMethodDescr_Type) &&
               reinterpret_cast<PyMethodDescrObject*>(object)->d_method->ml_flags == METH_NOARGS) {
      method_ = reinterpret_cast<PyMethodDescrObject*>(object)->d_method->ml_meth;
    } else if (Py_IS_TYPE(object, &PyGetSetDescr_Type)) {
      const PyGetSetDef* getter = reinterpret_cast<PyGetSetDescrObject*>(object)->d_getset;
      getter_ = getter->get;
      closure_ = getter->closure;
    }
    object_ = object;  // for good
  }

  // The answer. `tensor` is asked of, null for a function.
  Ref ask(PyObject* tensor = nullptr) const {
    if (getter_ != nullptr) return checked(getter_(tensor, closure_));
    if (method_ != nullptr) return checked(method_(tensor == nullptr ? self_ : tensor, nullptr));
    return checked(tensor == nullptr ? PyObject_CallNoArgs(object_) : PyObject_CallOneArg(object_, tensor));
  }

  bool is(PyObject* expected, PyObject* tensor = nullptr) const { return ask(tensor).get() == expected; }

 private:
  PyObject* object_ = nullptr;
  PyCFunction method_ = nullptr;
  PyObject* self_ = nullptr;
  getter getter_ = nullptr;
  void* closure_ = nullptr;
};

// What is asked of torch before the fast way is taken: found when the module is imported (add_call).
struct TorchState {
  PyObject *tensor, *parameter, *device, *layout;
  Question is_negative, requires_grad, is_grad_enabled, threads, is_inference, is_inference_mode;
  PyObject* increment_version;  // of an iterable of tensors
  // What each answers where nothing of the kind is at work; the first of modes that see functions.
  std::vector<std::pair<Question, PyObject*>> quiet;
  PyObject *forward_ad, *forward_level;                             // the names of a module
  PyObject *to_save, *saved_tensors, *non_differentiable, *shared;  // attributes of a context of autograd
  PyObject* derivative;                                             // one of `shared`
  PyObject *copy, *view;                                            // methods of a tensor
  PyObject* set_grad_enabled;

  static const TorchState& get() {
    static const TorchState& state = *new TorchState;  // never destroyed: Python ends before static objects do
    return state;
  }

  // Whether torch would do no more with a call than compute it: no mode, no transform, no tracing, no autocast,
  // no profiler.
  bool is_quiet() const {
    for (const auto& [question, expected] : quiet)
      if (!question.is(expected)) return false;
    PyObject* level = PyDict_GetItemWithError(forward_ad, forward_level);
    if (level == nullptr) throw PythonError{};
    return integer(level) < 0;
  }

 private:
  TorchState() {
    const auto find = [](const char* module, std::initializer_list<const char*> path) {
      Ref object = checked(PyImport_ImportModule(module));
      for (const char* name : path) object = checked(PyObject_GetAttrString(object.get(), name));
      return object.release();
    };
    tensor = find("torch", {"Tensor"});
    parameter = find("torch", {"nn", "Parameter"});
    device = find("torch", {"device"});
    layout = find("torch", {"layout"});
    is_negative = Question(find("torch", {"Tensor", "is_neg"}));
    requires_grad = Question(find("torch", {"Tensor", "requires_grad"}));
    is_grad_enabled = Question(find("torch", {"is_grad_enabled"}));
    threads = Question(find("torch", {"get_num_threads"}));
    set_grad_enabled = find("torch", {"_C", "_set_grad_enabled"});
    is_inference = Question(find("torch", {"Tensor", "is_inference"}));
    is_inference_mode = Question(find("torch", {"is_inference_mode_enabled"}));
    increment_version = find("torch", {"_C", "_increment_version"});
    PyObject* zero = checked(PyLong_FromLong(0)).release();  // small integers are one object each
    quiet = {{Question(find("torch", {"_C", "_len_torch_function_stack"})), zero},
             {Question(find("torch", {"_C", "_len_torch_dispatch_stack"})), zero},
             {Question(find("torch", {"_C", "_are_functorch_transforms_active"})), Py_False},
             {Question(find("torch", {"_C", "_get_tracing_state"})), Py_None},
             {Question(find("torch", {"_C", "_is_any_autocast_enabled"})), Py_False},
             {Question(find("torch", {"_C", "_autograd", "_profiler_enabled"})), Py_False}};
    forward_ad = find("torch.autograd.forward_ad", {"__dict__"});
    for (auto [place, name] : {std::pair{&forward_level, "_current_level"},
                               {&to_save, "to_save"},
                               {&saved_tensors, "saved_tensors"},
                               {&derivative, "derivative"},
                               {&non_differentiable, "non_differentiable"},
                               {&shared, "shared"},
                               {&copy, "copy_"},
                               {&view, "view"}})
      *place = checked(PyUnicode_InternFromString(name)).release();
  }
};

// It keeps the tensors: those in a list are anybody's to change.
class Signature {
 public:
  static constexpr int most_words = 1024, most_tensors = 64, most_numbers = 16;

  Signature() = default;
  Signature(const Signature&) = delete;
  Signature& operator=(const Signature&) = delete;
  ~Signature() { let_go(); }

  // Of a call; with free numbers, those that `is_free` are no part of it. False where the arguments are not all
  // tensors, numbers, texts and the like that torch has nothing to add to, or it throws; Python's error may be set
  // then, and means no more.
  bool read(PyObject* const* arguments, Py_ssize_t positional, PyObject* names, bool has_free_numbers) {
    const TorchState& state = TorchState::get();
    let_go();
    has_free_numbers_ = has_free_numbers;
    any_grad_ = false;
    words_ = numbers_ = 0;
    grad_mode_ = state.is_grad_enabled.is(Py_True);
    const std::int64_t threads = python::integer(state.threads.ask().get());
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    // What is recorded for all numbers holds for no call whose numbers count.
    if (!add(threads << 2 | has_free_numbers << 1 | grad_mode_, positional)) return false;
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

  // The tensors in the order of the arguments, each once, and their memory.
  int tensors() const { return tensors_; }
  PyObject* const* tensors_begin() const { return tensor_.data(); }
  const DLTensor* seen_begin() const { return seen_.data(); }

  // One more, which is no argument and no part of the signature.
  void append(PyObject* object) {
    seen_[tensors_] = Torch::get().seen(object);
    keep(object);
  }

  // A number of which a function sees its sign and no more: neither 0 nor 1 nor beyond a float's normal numbers.
  static bool is_free(double number) {
    const double size = std::fabs(number);
    return size > 0x1p-126 && size < 0x1p127 && size != 1;
  }

  bool has_free_numbers() const { return has_free_numbers_; }

  // The floating-point numbers, in the order of the arguments; none where all are part of it.
  Span<double> numbers() const { return {number_.data(), static_cast<std::size_t>(numbers_)}; }

 private:
  enum Tag { none, boolean, integer, real, free_real, characters, sequence, dtype, plain_tensor, same_tensor };

  template <class... Words>
  bool add(Words... words) {
    if (words_ + static_cast<int>(sizeof...(words)) > most_words) return false;
    ((word_[words_++] = static_cast<std::int64_t>(words)), ...);
    return true;
  }

  void keep(PyObject* object) {
    Py_INCREF(object);
    tensor_[tensors_++] = object;
  }

  void let_go() {
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
      if (has_free_numbers_) {
        if (numbers_ == most_numbers) return false;
        number_[numbers_++] = number;
        if (is_free(number)) return add(free_real, number < 0);
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
    if (reinterpret_cast<PyTypeObject*>(type) == Torch::get().dtype_type)  // one object each, for good
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
    DLTensor& seen = seen_[tensors_];
    if (Torch::get().exchange->tensor_from_object(object, &seen) != 0) return false;
    if (seen.data == nullptr && std::find(seen.size, seen.size + seen.dims, 0) == seen.size + seen.dims)
      return false;  // elements without memory, such as the zeros that torch's derivatives have
    if (!state.is_negative.is(Py_False, object)) return false;
    bool grad = false;
    if (grad_mode_) {
      grad = state.requires_grad.is(Py_True, object);
      any_grad_ = any_grad_ || grad;
    }
    keep(object);
    const std::int64_t kind = plain_tensor | grad << 8 | std::int64_t{seen.code} << 16 | std::int64_t{seen.bits} << 24 |
                              std::int64_t{seen.lanes} << 32;
    if (!add(kind, seen.dims, std::int64_t{seen.device_type} << 32 | seen.device_id)) return false;
    if (words_ + 2 * seen.dims > most_words) return false;
    for (int d = 0; d < seen.dims; ++d) word_[words_++] = seen.size[d];
    for (int d = 0; d < seen.dims; ++d) word_[words_++] = seen.stride[d];
    return true;
  }

  bool has_free_numbers_ = false, grad_mode_ = false, any_grad_ = false;
  int words_ = 0, tensors_ = 0, numbers_ = 0;
  std::array<std::int64_t, most_words> word_;  // the first `words_`
  std::array<PyObject*, most_tensors> tensor_;
  std::array<DLTensor, most_tensors> seen_;
  std::array<double, most_numbers> number_;
};

}  // namespace repdl::python
#pragma GCC visibility pop
