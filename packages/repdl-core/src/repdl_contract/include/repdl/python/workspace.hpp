// Memory that a kernel asks for: tensors beside one of its call, kept until the call ends.
#pragma once

#include "repdl/python/torch_memory.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

class Workspace {
 public:
  // Torch's C functions make the tensors if `prefers_c`, otherwise or if there are none
  // `repdl.registry.native.workspace`.
  Workspace(PyObject* like, bool prefers_c) : like_(like), prefers_c_(prefers_c) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() {
    for (void* tensor : held_in_c_) TorchMemory::get().drop(tensor);
  }

  static void* allocate(void* self, std::size_t bytes) {
    const PyGILState_STATE state = PyGILState_Ensure();
    auto& workspace = *static_cast<Workspace*>(self);
    const auto size = static_cast<std::int64_t>(bytes);
    void* result = workspace.prefers_c_ ? workspace.in_c(size) : nullptr;
    if (result == nullptr) result = guarded([&] { return workspace.in_python(size); }, static_cast<void*>(nullptr));
    PyGILState_Release(state);
    if (result == nullptr) throw PythonError{};
    return result;
  }

 private:
  // Null if that fails.
  void* in_c(std::int64_t bytes) {
    const TorchMemory& torch = TorchMemory::get();
    const auto make = [&]() -> void* {
      const DLTensor beside = Torch::get().dltensor(like_);
      const std::int64_t one = 1;
      void *tensor = nullptr, *address = nullptr;
      held_in_c_.reserve(held_in_c_.size() + 1);  // so that push_back can't throw
      if (!torch.make(1, &bytes, &one, DType::uint8, beside.device_type, beside.device_id, &tensor)) return nullptr;
      held_in_c_.push_back(tensor);
      return torch.get_data_ptr(tensor, &address) == 0 ? address : nullptr;
    };
    void* result = guarded(make, static_cast<void*>(nullptr));
    PyErr_Clear();
    return result;
  }

  void* in_python(std::int64_t bytes) {
    const Ref module = checked(PyImport_ImportModule("repdl.registry.native"));
    Ref tensor = checked(PyObject_CallMethod(module.get(), "workspace", "OL", like_, static_cast<long long>(bytes)));
    void* result = Arguments::address_of(tensor.get());
    if (result == nullptr) raise(PyExc_RuntimeError, "repdl.registry.native.workspace returned no memory");
    held_.push_back(std::move(tensor));
    return result;
  }

  PyObject* like_;
  bool prefers_c_;
  std::vector<Ref> held_;  // given back by the caller, who holds the interpreter's lock
  std::vector<void*> held_in_c_;
};

}  // namespace repdl::python
#pragma GCC visibility pop
