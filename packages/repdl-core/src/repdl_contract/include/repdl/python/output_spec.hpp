// How a new tensor is allocated. Large ones of the host lie in huge pages.
#pragma once

#include <algorithm>
#include <memory>

#include "repdl/huge_pages.hpp"
#include "repdl/python/torch_memory.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// Sizes, strides, dtype and device, those of a tensor that is given as an example.
class OutputSpec {
 public:
  explicit OutputSpec(PyObject* example) : named_(checked(PyDict_New())) {
    const DLTensor form = Torch::get().dltensor(example);
    const Ref size = checked(PyObject_GetAttrString(example, "shape"));
    const Ref stride = checked(PyObject_CallMethod(example, "stride", nullptr));
    given_ = checked(PyTuple_Pack(2, size.get(), stride.get()));
    for (const char* name : {"dtype", "device"}) {
      const Ref value = checked(PyObject_GetAttrString(example, name));
      if (PyDict_SetItemString(named_.get(), name, value.get()) != 0) throw PythonError{};
    }
    size_.assign(form.size, form.size + form.dims);
    stride_.assign(form.stride, form.stride + form.dims);
    dtype_ = Arguments::dtype(form);
    device_type_ = form.device_type;
    device_id_ = form.device_id;
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
    if (!torch.make(dims, size_.data(), stride_.data(), dtype_, device_type_, device_id_, &tensor))
      return allocate_in_python(address);  // which says what is wrong
    const std::unique_ptr<void, std::int32_t (*)(void*)> in_c(tensor, torch.drop);
    const Ref capsule = checked(PyCapsule_New(tensor, nullptr, nullptr));
    Ref object = checked(PyObject_CallOneArg(torch.as_tensor, capsule.get()));
    if (torch.get_data_ptr(tensor, address) != 0)
      raise(PyExc_RuntimeError, "torch does not say where the memory of a new tensor is");
    return object;
  }

  Ref allocate_in_python(void** address) const {
    Ref object = checked(PyObject_Call(TorchMemory::get().empty_in_python, given_.get(), named_.get()));
    *address = Arguments::address_of(object.get());
    return object;
  }

  Ref given_, named_;  // arguments of torch.empty_strided
  std::vector<std::int64_t> size_, stride_;
  DType dtype_ = DType::float32;
  std::int32_t device_type_ = 0, device_id_ = 0;
  std::size_t extent_ = 0;
};

}  // namespace repdl::python
#pragma GCC visibility pop
