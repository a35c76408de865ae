// New tensors, without values; large ones of the host in huge pages.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <memory>

#include "repdl/huge_pages.hpp"
#include "repdl/python/arguments.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// torch's C functions for compiled models, which keep their form from version to version
// (https://docs.pytorch.org/docs/stable/torch.compiler_aot_inductor.html), found in the process. A tensor takes
// them 0.5 microseconds and torch.empty_strided, which is called where they are not there, more.
struct TorchMemory {
  std::int32_t (*empty_strided)(std::int64_t, const std::int64_t*, const std::int64_t*, std::int32_t, std::int32_t,
                                std::int32_t, void**) = nullptr;
  PyObject* as_tensor = nullptr;  // from a capsule
  std::int32_t (*get_data_ptr)(void*, void**) = nullptr;
  std::int32_t (*drop)(void*) = nullptr;
  PyObject* empty_in_python;  // torch.empty_strided

  static const TorchMemory& get() {
    static const TorchMemory& memory = *new TorchMemory;  // never destroyed: Python ends before static objects do
    return memory;
  }

  // A tensor on a device that DLPack gives this type and index. False where torch makes none so.
  bool make(std::int64_t dims, const std::int64_t* size, const std::int64_t* stride, DType type,
            std::int32_t device_type, std::int32_t device_id, void** tensor) const {
    if (empty_strided == nullptr || (device_type != dlpack_cpu && device_type != dlpack_cuda)) return false;
    const std::int32_t device = device_type == dlpack_cpu ? cpu : cuda;
    return empty_strided(dims, size, stride, dtype[static_cast<int>(type)], device, device_id, tensor) == 0;
  }

 private:
  std::int32_t cpu = 0, cuda = 0;
  std::int32_t dtype[10] = {};

  TorchMemory() {
    const Ref torch = checked(PyImport_ImportModule("torch"));
    empty_in_python = checked(PyObject_GetAttrString(torch.get(), "empty_strided")).release();
    void* library = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
    if (library == nullptr) return;
    bool complete = true;
    const auto constant = [&](const std::string& name) {
      const auto function = reinterpret_cast<std::int32_t (*)()>(dlsym(library, ("aoti_torch_" + name).c_str()));
      complete = complete && function != nullptr;
      return function == nullptr ? 0 : function();
    };
    const char* names[] = {"bool",  "uint8",    "int8",    "int16",   "int32",
                           "int64", "bfloat16", "float16", "float32", "float64"};
    for (int i = 0; i < 10; ++i) dtype[i] = constant(std::string("dtype_") + names[i]);
    cpu = constant("device_type_cpu");
    cuda = constant("device_type_cuda");
    Ref module(PyImport_ImportModule("torch._C._aoti"));
    Ref function(module ? PyObject_GetAttrString(module.get(), "alloc_tensor_by_stealing_from_void_ptr") : nullptr);
    PyErr_Clear();
    drop = reinterpret_cast<decltype(drop)>(dlsym(library, "aoti_torch_delete_tensor_object"));
    get_data_ptr = reinterpret_cast<decltype(get_data_ptr)>(dlsym(library, "aoti_torch_get_data_ptr"));
    if (!complete || !function || drop == nullptr || get_data_ptr == nullptr) return;
    as_tensor = function.release();
    empty_strided = reinterpret_cast<decltype(empty_strided)>(dlsym(library, "aoti_torch_empty_strided"));
    if (empty_strided != nullptr && !leaves_its_own()) empty_strided = nullptr;
  }

  // Whether what is made of a tensor in C is another owner of it, so that the one in C is to be dropped.
  bool leaves_its_own() const {
    const std::int64_t one = 1;
    void* tensor = nullptr;
    if (empty_strided(1, &one, &one, dtype[8], cpu, 0, &tensor) != 0) return false;
    const Ref capsule = checked(PyCapsule_New(tensor, nullptr, nullptr));
    const Ref object(PyObject_CallOneArg(as_tensor, capsule.get()));
    const Ref owners(object ? PyObject_CallMethod(object.get(), "_use_count", nullptr) : nullptr);
    const bool two = owners && PyLong_AsLong(owners.get()) == 2;
    PyErr_Clear();
    if (two) drop(tensor);
    return two;
  }
};

// Makes tensors of the sizes, strides, dtype and device of a prototype.
class Fresh {
 public:
  explicit Fresh(PyObject* prototype) : named_(checked(PyDict_New())) {
    const DLTensor form = Torch::get().seen(prototype);
    const Ref size = checked(PyObject_GetAttrString(prototype, "shape"));
    const Ref stride = checked(PyObject_CallMethod(prototype, "stride", nullptr));
    given_ = checked(PyTuple_Pack(2, size.get(), stride.get()));
    for (const char* name : {"dtype", "device"}) {
      const Ref value = checked(PyObject_GetAttrString(prototype, name));
      if (PyDict_SetItemString(named_.get(), name, value.get()) != 0) throw PythonError{};
    }
    size_.assign(form.size, form.size + form.dims);
    stride_.assign(form.stride, form.stride + form.dims);
    dtype_ = Arguments::dtype(form);
    device_ = form.device_type;
    index_ = form.device_id;
    if (form.device_type == dlpack_cpu) {
      extent_ = static_cast<std::size_t>(form.bits / 8);
      for (std::size_t d = 0; d < size_.size(); ++d)
        extent_ += static_cast<std::size_t>(form.bits / 8 * (std::max<std::int64_t>(size_[d], 1) - 1) * stride_[d]);
    }
  }

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(given_.get());
    Py_VISIT(named_.get());
    return 0;
  }

  // Bytes from the first element to the end of the last one on the host; 0 on a device.
  std::size_t extent() const { return extent_; }

  // A tensor, and its address.
  Ref make(void** address) const {
    Ref tensor = allocate(address);
    prefer_huge_pages(*address, std::find(size_.begin(), size_.end(), 0) == size_.end() ? extent_ : 0);
    return tensor;
  }

 private:
  Ref allocate(void** address) const {
    const TorchMemory& torch = TorchMemory::get();
    void* tensor = nullptr;
    const auto dims = static_cast<std::int64_t>(size_.size());
    if (!torch.make(dims, size_.data(), stride_.data(), dtype_, device_, index_, &tensor))
      return make_slowly(address);  // which says what is wrong
    const std::unique_ptr<void, std::int32_t (*)(void*)> in_c(tensor, torch.drop);
    const Ref capsule = checked(PyCapsule_New(tensor, nullptr, nullptr));
    Ref object = checked(PyObject_CallOneArg(torch.as_tensor, capsule.get()));
    if (torch.get_data_ptr(tensor, address) != 0)
      raise(PyExc_RuntimeError, "torch does not say where the memory of a new tensor is");
    return object;
  }

  Ref make_slowly(void** address) const {
    Ref object = checked(PyObject_Call(TorchMemory::get().empty_in_python, given_.get(), named_.get()));
    *address = Arguments::tensor_of(object.get());
    return object;
  }

  Ref given_, named_;
  std::vector<std::int64_t> size_, stride_;
  DType dtype_ = DType::float32;
  std::int32_t device_ = 0, index_ = 0;
  std::size_t extent_ = 0;  // where it is the host's
};

}  // namespace repdl::python
#pragma GCC visibility pop
