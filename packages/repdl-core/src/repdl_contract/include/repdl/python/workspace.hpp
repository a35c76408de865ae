// Memory that a kernel asks for: tensors beside one of its call, kept until the call ends.
#pragma once

#include "repdl/python/fresh.hpp"

namespace repdl::python {

class Workspace {
 public:
  // Where it is `quick` torch's C functions make the tensors, else and where there are none `repdl.native.workspace`.
  Workspace(PyObject* like, bool quick) : like_(like), quick_(quick) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() {
    for (void* tensor : kept_in_c_) TorchMemory::get().drop(tensor);
  }

  static void* allocate(void* self, std::size_t bytes) {
    const PyGILState_STATE state = PyGILState_Ensure();
    auto& workspace = *static_cast<Workspace*>(self);
    const auto size = static_cast<std::int64_t>(bytes);
    void* result = workspace.quick_ ? workspace.in_c(size) : nullptr;
    if (result == nullptr) result = workspace.in_python(size);
    PyGILState_Release(state);
    if (result == nullptr) throw PythonError{};
    return result;
  }

 private:
  // Null where that is not to be had.
  void* in_c(std::int64_t bytes) {
    try {
      const TorchMemory& torch = TorchMemory::get();
      DLTensor beside;
      const DLExchange* exchange = Torch::get().exchange;
      void *tensor = nullptr, *address = nullptr;
      if (exchange == nullptr || exchange->tensor_from_object(like_, &beside) != 0) throw PythonError{};
      const std::int64_t one = 1;
      if (!torch.make(1, &bytes, &one, DType::uint8, beside.device_type, beside.device_id, &tensor)) return nullptr;
      kept_in_c_.push_back(tensor);
      torch.get_data_ptr(tensor, &address);
      return address;
    } catch (const PythonError&) {
      PyErr_Clear();
      return nullptr;
    }
  }

  // Null where Python's error is set.
  void* in_python(std::int64_t bytes) {
    const Ref module(PyImport_ImportModule("repdl.native"));
    if (!module) return nullptr;
    Ref tensor(PyObject_CallMethod(module.get(), "workspace", "OL", like_, static_cast<long long>(bytes)));
    if (!tensor) return nullptr;
    try {
      void* result = Arguments::tensor_of(tensor.get());
      kept_.push_back(std::move(tensor));
      return result;
    } catch (const PythonError&) {
      return nullptr;
    }
  }

  PyObject* like_;
  bool quick_;
  std::vector<Ref> kept_;  // given back by the caller, who holds the interpreter's lock
  std::vector<void*> kept_in_c_;
};

}  // namespace repdl::python
