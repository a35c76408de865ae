// `Recording` as Python has it, and what a node of autograd calls.
#pragma once

#include "repdl/python/recording.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

struct RecordingObject {
  PyObject_HEAD Recording* recording;
};

inline PyObject* recording_type();

// Whether an object is a recording of this module.
inline bool is_recording(PyObject* object) { return reinterpret_cast<PyObject*>(Py_TYPE(object)) == recording_type(); }

inline const Recording& recording_of(PyObject* object) {
  if (!is_recording(object)) raise(PyExc_TypeError, "got a %s, expected a Recording", Py_TYPE(object)->tp_name);
  return *reinterpret_cast<RecordingObject*>(object)->recording;
}

// Recording.forward(context, *tensors, recording): the forward function of a node of autograd
inline PyObject* forward_recording(PyObject*, PyObject* const* given, Py_ssize_t all) {
  return guarded(
      [&]() -> PyObject* {
        if (all < 2 || all - 2 > static_cast<Py_ssize_t>(BoundCall::most))
          raise(PyExc_TypeError, "Recording.forward: got %zd arguments, expected (context, *tensors, recording)", all);
        const int count = static_cast<int>(all) - 2;
        const Recording& recording = recording_of(given[all - 1]);
        const AutogradNode& node = recording.expect_node(count);
        DLTensor memory[BoundCall::most];
        for (int i = 0; i < count; ++i) memory[i] = Torch::get().dltensor(given[1 + i]);
        Ref output = recording.run({given + 1, memory, count}, {});
        node.set_up(given[0], given + 1, output.get(), recording.returns_tuple());
        return output.release();
      },
      static_cast<PyObject*>(nullptr));
}

// Recording.backward(context, *gradients): its derivative, a function of gradients and of what forward saved
inline PyObject* backward_recording(PyObject*, PyObject* const* given, Py_ssize_t all) {
  return guarded(
      [&]() -> PyObject* {
        if (all < 1) raise(PyExc_TypeError, "Recording.backward: got no argument, expected (context, *gradients)");
        const TorchState& state = TorchState::get();
        const Ref saved = checked(PyObject_GetAttr(given[0], state.saved_tensors));
        const Ref shared = checked(PyObject_GetAttr(given[0], state.shared));
        Ref derivative = checked(PyObject_GetAttr(shared.get(), state.derivative));
        if (derivative.get() == Py_None)
          derivative = checked(PyObject_CallMethodOneArg(shared.get(), state.derivative_of, given[0]));
        const Items tensors(saved.get(), "Recording.backward: the saved tensors");
        constexpr Py_ssize_t most = 128;
        PyObject* arguments[most];
        std::size_t count = 0;
        const Py_ssize_t gradients = all - 1;
        if (gradients + tensors.size() > most)
          raise(PyExc_ValueError, "Recording.backward: got %zd gradients and saved tensors, expected at most %zd",
                gradients + tensors.size(), most);
        for (Py_ssize_t i = 0; i < gradients; ++i) arguments[count++] = given[1 + i];
        for (Py_ssize_t i = 0; i < tensors.size(); ++i) arguments[count++] = tensors[i];
        return PyObject_Vectorcall(derivative.get(), arguments, count, nullptr);
      },
      static_cast<PyObject*>(nullptr));
}

// Recording.node_method(): `backward` as a method of a node of autograd
inline PyObject* node_method(PyObject* type, PyObject*) {
  const Ref function(PyObject_GetAttrString(type, "backward"));
  return function ? PyInstanceMethod_New(function.get()) : nullptr;
}

// Recording.binds(kernel): whether it was built for this version, so that its calls can be recorded
inline PyObject* binds_kernel(PyObject*, PyObject* kernel) {
  return PyBool_FromLong(bound_call_functions(kernel) != nullptr);
}

// Recording(plan)
inline PyObject* new_recording(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  return guarded(
      [&]() -> PyObject* {
        refuse_keywords("Recording", named);
        PyObject* plan;
        if (!PyArg_ParseTuple(arguments, "O:Recording", &plan)) return nullptr;
        auto recording = std::make_unique<Recording>(plan);
        Ref self = checked(PyType_GenericAlloc(type, 0));
        reinterpret_cast<RecordingObject*>(self.get())->recording = recording.release();
        return self.release();
      },
      static_cast<PyObject*>(nullptr));
}

inline int traverse_recording(PyObject* self, visitproc visit, void* arg) {
  const Recording* recording = reinterpret_cast<RecordingObject*>(self)->recording;
  Py_VISIT(Py_TYPE(self));
  return recording == nullptr ? 0 : recording->traverse(visit, arg);
}

inline void free_recording(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  delete reinterpret_cast<RecordingObject*>(self)->recording;
  type->tp_free(self);
  Py_DECREF(type);
}

inline PyObject* recording_type() {
  static PyMethodDef methods[] = {
      {"backward", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(backward_recording)),
       METH_FASTCALL | METH_STATIC, "backward(context, *gradients): the derivative of what forward ran"},
      {"binds", binds_kernel, METH_O | METH_STATIC, "binds(kernel): whether it was built for this version"},
      {"forward", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(forward_recording)),
       METH_FASTCALL | METH_STATIC, "forward(context, *tensors, recording): run it below a node of autograd"},
      {"node_method", node_method, METH_NOARGS | METH_CLASS, "backward as a method of a node of autograd"},
      {nullptr, nullptr, 0, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(new_recording)},
      {Py_tp_methods, methods},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse_recording)},
      {Py_tp_dealloc, reinterpret_cast<void*>(free_recording)},
      {Py_tp_doc, const_cast<char*>("The kernels that a call ran, to be run again; see repdl.callcache.")},
      {0, nullptr},
  };
  static PyType_Spec spec = {"repdl.Recording", sizeof(RecordingObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, slots};
  static PyObject* type = PyType_FromSpec(&spec);
  return type;
}

}  // namespace repdl::python
#pragma GCC visibility pop
