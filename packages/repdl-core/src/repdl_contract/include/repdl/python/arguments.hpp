// Arguments of a kernel as Python has them: tensors are read through the DLPack exchange API that torch has
// from 2.10 on, else by their attributes; nothing of torch is linked.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "repdl/backend.hpp"
#include "repdl/python/ref.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

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

// What is needed of torch, once a module: found when it is imported (python.hpp, call_module.hpp), as an import lets
// other threads run.
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
    raise(PyExc_TypeError, "a kernel got a tensor of a dtype that kernels do not have");
  }

  bool is_tensor(PyObject* object) const {
    return PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(tensor_type.get())) != 0;
  }

  // The memory of a tensor. Throws where torch does not say it, and of what is none.
  DLTensor dltensor(PyObject* object) const {
    DLTensor result;
    if (!is_tensor(object)) raise(PyExc_TypeError, "got a %s, expected a tensor", Py_TYPE(object)->tp_name);
    if (exchange->tensor_from_object(object, &result) != 0) throw PythonError{};
    return result;
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
  // Of a tuple. What is in a list is kept too: others may change that while the kernel runs.
  void add(PyObject* object) { values_.push_back(value(object)); }
  const Argument* data() const { return values_.data(); }
  std::size_t size() const { return values_.size(); }

  // Copies what belongs to the objects that were added, and keeps none of them.
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
    listed_.clear();
  }

  static void* address_of(PyObject* object) { return Arguments().tensor(object).data; }

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
    raise(PyExc_TypeError, "a kernel got a tensor of a dtype that kernels do not have");
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

  Argument list(PyObject* object) {
    if (PyList_GET_SIZE(object) == 0) return {};
    if (PyLong_Check(item(object, 0))) {
      std::vector<std::int64_t>& all = integers_.emplace_back();
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) all.push_back(integer(item(object, i)));
      return Ints{all.data(), all.size()};
    }
    std::vector<Tensor>& all = tensors_.emplace_back();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) all.push_back(tensor(item(object, i)));
    return Tensors{all.data(), all.size()};
  }

  PyObject* item(PyObject* list, Py_ssize_t i) { return listed_.emplace_back(item_of(list, i)).get(); }

  Tensor tensor(PyObject* object) {
    const Torch& torch = Torch::get();
    Tensor result;
    result.given = true;
    if (!torch.is_tensor(object))
      raise(PyExc_TypeError,
            "a kernel got a %s, expected a tensor, a number, a text, a dtype, a contract, a list of tensors or of "
            "integers, or None",
            Py_TYPE(object)->tp_name);
    if (torch.exchange != nullptr) {
      const DLTensor given = torch.dltensor(object);
      result.data = given.data == nullptr ? nullptr : static_cast<std::byte*>(given.data) + given.byte_offset;
      result.dims = given.dims;
      result.size = given.size;
      result.stride = given.stride;
      result.dtype = dtype(given);
      if (given.data == nullptr && result.count() != 0)
        raise(PyExc_RuntimeError, "a kernel got a tensor of %lld elements that has no memory",
              static_cast<long long>(result.count()));
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
    result.dims = static_cast<int>(Items(shape.get(), "the shape of a tensor").size());
    return result;
  }

  const std::int64_t* numbers(PyObject* tuple) {
    const Items items(tuple, "sizes or strides of a tensor");
    std::vector<std::int64_t>& all = integers_.emplace_back();
    for (Py_ssize_t i = 0; i < items.size(); ++i) all.push_back(integer(items[i]));
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
  std::vector<Ref> listed_;
};

}  // namespace repdl::python
#pragma GCC visibility pop
