// Arguments of a kernel as Python has them: tensors are read through the DLPack exchange API that torch has
// from 2.10 on, else by their attributes; nothing of torch is linked.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <deque>

#include "repdl/backend.hpp"

namespace repdl::python {

// An owned reference.
class Ref {
 public:
  explicit Ref(PyObject* object = nullptr) : object_(object) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

// Thrown where Python's error is set.
struct PythonError {};

inline Ref checked(PyObject* object) {
  if (object == nullptr) throw PythonError{};
  return Ref(object);
}

// The layout of DLPack 1.x (https://dmlc.github.io/dlpack/latest/c_api.html), of which tensors are read.
struct DLTensor {
  void* data;
  std::int32_t device_type, device_id;
  std::int32_t dims;
  std::uint8_t code, bits;
  std::uint16_t lanes;
  std::int64_t* size;
  std::int64_t* stride;
  std::uint64_t byte_offset;
};
constexpr std::int32_t dlpack_cpu = 1, dlpack_cuda = 2;  // device_type
struct DLExchange {
  std::uint32_t major, minor;
  void* previous;
  int (*allocate)(DLTensor*, void**, void*, void (*)(void*, const char*, const char*));
  int (*managed_from_object)(void*, void**);
  int (*managed_to_object)(void*, void**);
  int (*tensor_from_object)(void*, DLTensor*);
  int (*current_stream)(std::int32_t, std::int32_t, void**);
};

// What is needed of torch, once a module.
struct Torch {
  Ref tensor_type;
  Ref dtype, shape, stride, data_ptr;
  const DLExchange* exchange = nullptr;
  PyTypeObject* dtype_type;
  std::deque<std::pair<PyObject*, DType>> known;

  static const Torch& get() {
    static const Torch& torch = *new Torch;  // never destroyed: Python ends before static objects do
    return torch;
  }

  DType dtype_of(PyObject* dtype_object) const {
    for (const auto& [object, type] : known)
      if (object == dtype_object) return type;
    PyErr_SetString(PyExc_TypeError, "a kernel got a tensor of a dtype that kernels do not have");
    throw PythonError{};
  }

 private:
  Torch() {
    const Ref torch = checked(PyImport_ImportModule("torch"));
    tensor_type = checked(PyObject_GetAttrString(torch.get(), "Tensor"));
    const char* names[] = {"bool",  "uint8",    "int8",    "int16",   "int32",
                           "int64", "bfloat16", "float16", "float32", "float64"};
    for (int i = 0; i < 10; ++i)
      known.emplace_front(checked(PyObject_GetAttrString(torch.get(), names[i])).release(), static_cast<DType>(i));
    dtype_type = Py_TYPE(known.front().first);
    dtype = checked(PyUnicode_InternFromString("dtype"));
    shape = checked(PyUnicode_InternFromString("shape"));
    stride = checked(PyUnicode_InternFromString("stride"));
    data_ptr = checked(PyUnicode_InternFromString("data_ptr"));
    const Ref capsule(PyObject_GetAttrString(tensor_type.get(), "__dlpack_c_exchange_api__"));
    if (capsule && PyCapsule_CheckExact(capsule.get())) {
      const auto* api =
          static_cast<const DLExchange*>(PyCapsule_GetPointer(capsule.get(), PyCapsule_GetName(capsule.get())));
      if (api != nullptr && api->major == 1) exchange = api;
    }
    PyErr_Clear();
  }
};

// The arguments of one call, and the memory behind those that Python has in another form.
class Arguments {
 public:
  void add(PyObject* object) { values_.push_back(value(object)); }
  const Argument* data() const { return values_.data(); }
  std::size_t size() const { return values_.size(); }

  // Copies what belongs to the objects that were added.
  void own() {
    for (Argument& value : values_) {
      if (auto* tensor = std::get_if<Tensor>(&value)) {
        own(*tensor);
      } else if (auto* text = std::get_if<std::string_view>(&value)) {
        value = std::string_view(texts_.emplace_back(*text));
      }
    }
    for (std::vector<Tensor>& list : tensors_)
      for (Tensor& tensor : list) own(tensor);
  }

  // The address of a tensor's memory.
  static void* tensor_of(PyObject* object) { return Arguments().tensor(object).data; }

  static DType dtype(const DLTensor& given) {
    enum { integer = 0, natural = 1, real = 2, brain = 4, boolean = 6 };
    const int bits = given.bits;
    if (given.lanes == 1) switch (given.code) {
        case real:
          if (bits >= 16 && bits <= 64)
            return bits == 32 ? DType::float32 : bits == 64 ? DType::float64 : DType::float16;
          break;
        case integer:
          return bits == 64 ? DType::int64 : bits == 32 ? DType::int32 : bits == 16 ? DType::int16 : DType::int8;
        case natural:
          if (bits == 8) return DType::uint8;
          break;
        case brain: return DType::bfloat16;
        case boolean: return DType::boolean;
      }
    PyErr_SetString(PyExc_TypeError, "a kernel got a tensor of a dtype that kernels do not have");
    throw PythonError{};
  }

 private:
  Argument value(PyObject* object) {
    if (object == Py_None) return {};
    if (PyBool_Check(object)) return object == Py_True;
    if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
    if (PyLong_Check(object)) return integer(object);
    if (PyUnicode_Check(object)) {
      Py_ssize_t length = 0;
      const char* text = PyUnicode_AsUTF8AndSize(object, &length);
      if (text == nullptr) throw PythonError{};
      return std::string_view(text, static_cast<std::size_t>(length));
    }
    if (PyTuple_Check(object) && PyTuple_GET_SIZE(object) == 3)
      return Contract{integer(PyTuple_GET_ITEM(object, 0)), integer(PyTuple_GET_ITEM(object, 1)),
                      integer(PyTuple_GET_ITEM(object, 2))};
    if (PyList_Check(object)) return list(object);
    if (Py_TYPE(object) == Torch::get().dtype_type) return Torch::get().dtype_of(object);
    return tensor(object);
  }

  static std::int64_t integer(PyObject* object) {
    const long long result = PyLong_AsLongLong(object);
    if (result == -1 && PyErr_Occurred()) throw PythonError{};
    return result;
  }

  Argument list(PyObject* object) {
    const Py_ssize_t length = PyList_GET_SIZE(object);
    if (length == 0) return {};
    if (PyLong_Check(PyList_GET_ITEM(object, 0))) {
      std::vector<std::int64_t>& all = integers_.emplace_back();
      for (Py_ssize_t i = 0; i < length; ++i) all.push_back(integer(PyList_GET_ITEM(object, i)));
      return Ints{all.data(), all.size()};
    }
    std::vector<Tensor>& all = tensors_.emplace_back();
    for (Py_ssize_t i = 0; i < length; ++i) all.push_back(tensor(PyList_GET_ITEM(object, i)));
    return Tensors{all.data(), all.size()};
  }

  Tensor tensor(PyObject* object) {
    const Torch& torch = Torch::get();
    Tensor result;
    result.given = true;
    if (torch.exchange != nullptr) {
      DLTensor given;
      if (torch.exchange->tensor_from_object(object, &given) != 0) throw PythonError{};
      result.data = static_cast<std::byte*>(given.data) + given.byte_offset;
      result.dims = given.dims;
      result.size = given.size;
      result.stride = given.stride;
      result.dtype = dtype(given);
      return result;
    }
    result.dtype = torch.dtype_of(checked(PyObject_GetAttr(object, torch.dtype.get())).get());
    const Ref address = checked(PyObject_CallMethodNoArgs(object, torch.data_ptr.get()));
    result.data = PyLong_AsVoidPtr(address.get());
    if (PyErr_Occurred()) throw PythonError{};
    const Ref shape = checked(PyObject_GetAttr(object, torch.shape.get()));
    const Ref stride = checked(PyObject_CallMethodNoArgs(object, torch.stride.get()));
    result.size = numbers(shape.get());
    result.stride = numbers(stride.get());
    result.dims = static_cast<int>(PyTuple_GET_SIZE(shape.get()));
    return result;
  }

  const std::int64_t* numbers(PyObject* tuple) {
    std::vector<std::int64_t>& all = integers_.emplace_back();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) all.push_back(integer(PyTuple_GET_ITEM(tuple, i)));
    return all.data();
  }

  void own(Tensor& tensor) {
    tensor.size = copied(tensor.size, tensor.dims);
    tensor.stride = copied(tensor.stride, tensor.dims);
  }

  const std::int64_t* copied(const std::int64_t* first, int count) {
    return integers_.emplace_back(first, first + count).data();
  }

  std::vector<Argument> values_;
  std::deque<std::string> texts_;
  std::deque<std::vector<std::int64_t>> integers_;
  std::deque<std::vector<Tensor>> tensors_;
};

}  // namespace repdl::python
