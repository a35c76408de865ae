// Memory that a kernel asks for: tensors beside one of its call, kept until the call ends.
#pragma once

#include "repdl/python/fresh.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

class Workspace {
 public:
  // Where it is `quick` torch's C functions make the tensors, else and where there are none `repdl.registry.native.workspace`.
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
    if (result == nullptr) result = guarded([&] { return workspace.in_python(size); }, static_cast<void*>(nullptr));
    PyGILState_Release(state);
    if (result == nullptr) throw PythonError{};
    return result;
  }

 private:
  // Null where that is not to be had.
  void* in_c(std::int64_t bytes) {
    const TorchMemory& torch = TorchMemory::get();
    const auto make = [&]() -> void* {
      const DLTensor beside = Torch::get().seen(like_);
      const std::int64_t one = 1;
      void *tensor = nullptr, *address = nullptr;
      kept_in_c_.reserve(kept_in_c_.size() + 1);  // what is made has a place
      if (!torch.make(1, &bytes, &one, DType::uint8, beside.device_type, beside.device_id, &tensor)) return nullptr;
      kept_in_c_.push_back(tensor);
      return torch.get_data_ptr(tensor, &address) == 0 ? address : nullptr;
    };
    void* result = guarded(make, static_cast<void*>(nullptr));
    PyErr_Clear();
    return result;
  }

  void* in_python(std::int64_t bytes) {
    const Ref module = checked(PyImport_ImportModule("repdl.registry.native"));
    Ref tensor = checked(PyObject_CallMethod(module.get(), "workspace", "OL", like_, static_cast<long long>(bytes)));
    void* result = Arguments::tensor_of(tensor.get());
    if (result == nullptr) raise(PyExc_RuntimeError, "repdl.registry.native.workspace returned no memory");
    kept_.push_back(std::move(tensor));
    return result;
  }

  PyObject* like_;
  bool quick_;
  std::vector<Ref> kept_;  // given back by the caller, who holds the interpreter's lock
  std::vector<void*> kept_in_c_;
};

}  // namespace repdl::python
#pragma GCC visibility pop
