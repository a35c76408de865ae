// What torch is asked at each call: its modes, and the attributes of tensors.
#pragma once

#include "repdl/python/arguments.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// A callable without arguments, or a method or getter of a tensor; its C entry point is found once.
class TorchQuery {
 public:
  TorchQuery() = default;
  explicit TorchQuery(PyObject* object) {
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
    object_ = object;  // never given back
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

// What is asked of torch before a call is looked up; found when the module is imported (call_module.hpp).
struct TorchState {
  PyObject *tensor, *parameter, *device, *layout;
  TorchQuery is_negative, requires_grad, is_grad_enabled, threads, is_inference, is_inference_mode;
  PyObject* increment_version;  // of an iterable of tensors
  // What each answers if it is off; the first is about modes that see functions.
  std::vector<std::pair<TorchQuery, PyObject*>> quiet;
  PyObject *forward_ad, *forward_level;  // the names of a module
  // Attributes of a context of autograd.
  PyObject *to_save, *saved_tensors, *non_differentiable, *materialize_grads, *shared;
  PyObject *derivative, *derivative_of;  // of `shared`
  PyObject *copy, *view;                 // methods of a tensor
  PyObject* set_grad_enabled;

  static const TorchState& get() {
    static const TorchState& state = *new TorchState;  // never destroyed: Python ends before static objects do
    return state;
  }

  // Whether torch would do no more with a call than compute it: no mode, transform, tracing, autocast or profiler.
  bool is_quiet() const {
    for (const auto& [query, expected] : quiet)
      if (!query.is(expected)) return false;
    return integer(value_of(forward_ad, forward_level).get()) < 0;
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
    is_negative = TorchQuery(find("torch", {"Tensor", "is_neg"}));
    requires_grad = TorchQuery(find("torch", {"Tensor", "requires_grad"}));
    is_grad_enabled = TorchQuery(find("torch", {"is_grad_enabled"}));
    threads = TorchQuery(find("torch", {"get_num_threads"}));
    set_grad_enabled = find("torch", {"_C", "_set_grad_enabled"});
    is_inference = TorchQuery(find("torch", {"Tensor", "is_inference"}));
    is_inference_mode = TorchQuery(find("torch", {"is_inference_mode_enabled"}));
    increment_version = find("torch", {"_C", "_increment_version"});
    PyObject* zero = checked(PyLong_FromLong(0)).release();  // small integers are one object each
    quiet = {{TorchQuery(find("torch", {"_C", "_len_torch_function_stack"})), zero},
             {TorchQuery(find("torch", {"_C", "_len_torch_dispatch_stack"})), zero},
             {TorchQuery(find("torch", {"_C", "_are_functorch_transforms_active"})), Py_False},
             {TorchQuery(find("torch", {"_C", "_get_tracing_state"})), Py_None},
             {TorchQuery(find("torch", {"_C", "_is_any_autocast_enabled"})), Py_False},
             {TorchQuery(find("torch", {"_C", "_autograd", "_profiler_enabled"})), Py_False}};
    forward_ad = find("torch.autograd.forward_ad", {"__dict__"});
    for (auto [attribute, name] : {std::pair{&forward_level, "_current_level"},
                                   {&to_save, "to_save"},
                                   {&saved_tensors, "saved_tensors"},
                                   {&derivative, "derivative"},
                                   {&derivative_of, "derivative_of"},
                                   {&non_differentiable, "non_differentiable"},
                                   {&materialize_grads, "materialize_grads"},
                                   {&shared, "shared"},
                                   {&copy, "copy_"},
                                   {&view, "view"}})
      *attribute = checked(PyUnicode_InternFromString(name)).release();
  }
};

}  // namespace repdl::python
#pragma GCC visibility pop
