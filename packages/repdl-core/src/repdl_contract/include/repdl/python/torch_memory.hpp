// New tensors by torch's C functions for compiled models.
#pragma once

#include <dlfcn.h>

#include <string>

#include "repdl/python/arguments.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// torch's C functions for compiled models, whose signatures are stable
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

}  // namespace repdl::python
#pragma GCC visibility pop
