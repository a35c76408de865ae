// A recorded call: the kernels that it ran, one after the other, on which memory, to be run again on other tensors.
#pragma once

#include <memory>

#include "repdl/python/fresh.hpp"
#include "repdl/python/kept.hpp"
#include "repdl/python/signature.hpp"

namespace repdl::python {

// Sources of memory are numbered: the tensors of the call, then new ones, then constants.
class Recording {
 public:
  static constexpr std::size_t most = 32;  // new tensors, or constants

  // What `repdl.replay` found out about a call, as it passes it to `Recording(...)`.
  Recording(PyObject* checks, PyObject* steps, PyObject* fresh, PyObject* constants, PyObject* results,
            PyObject* gradient) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(checks); ++i) checks_.emplace_back(PyTuple_GET_ITEM(checks, i));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); ++i) add_step(PyTuple_GET_ITEM(steps, i));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fresh); ++i) fresh_.emplace_back(PyTuple_GET_ITEM(fresh, i));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
      constant_addresses_.push_back(Arguments::tensor_of(PyTuple_GET_ITEM(constants, i)));
      constants_.push_back(owned(PyTuple_GET_ITEM(constants, i)));
    }
    if (fresh_.size() > most || constants_.size() > most) throw std::logic_error("Recording: too many tensors");
    several_ = PyTuple_Check(results);
    if (several_)
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(results); ++i)
        results_.push_back(number(PyTuple_GET_ITEM(results, i)));
    else
      results_.push_back(number(results));
    if (gradient != Py_None) {
      gradient_.emplace_back(gradient);
      item_ = number(PyTuple_GET_ITEM(gradient, 2));
    }
  }

  // Runs the kernels. `tensor` and `seen` are the tensors of the call.
  Ref run(PyObject* const* tensor, const DLTensor* seen, int count) const {
    for (const Callee& check : checks_) check.call(tensor, nullptr);
    void* base[Signature::most_tensors + 2 * most];
    std::size_t bases = 0;
    for (int i = 0; i < count; ++i) base[bases++] = static_cast<std::byte*>(seen[i].data) + seen[i].byte_offset;
    Ref made[most];
    for (std::size_t i = 0; i < fresh_.size(); ++i) made[i] = fresh_[i].make(&base[bases++]);
    for (void* address : constant_addresses_) base[bases++] = address;
    void* stream = nullptr;
    constexpr int cpu = 1;
    if (seen[0].device_type != cpu &&
        Torch::get().exchange->current_stream(seen[0].device_type, seen[0].device_id, &stream) != 0)
      throw PythonError{};
    for (const Step& step : steps_) {
      void* addresses[Kept::most];
      for (std::size_t k = 0; k < step.places.size(); ++k)
        addresses[k] = static_cast<std::byte*>(base[step.places[k].first]) + step.places[k].second;
      if (step.functions->run(step.kept, addresses, step.threads, step.device, stream, tensor[0]) != 0)
        throw PythonError{};
    }
    if (!several_) return std::move(made[results_[0]]);
    Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(results_.size())));
    for (std::size_t i = 0; i < results_.size(); ++i) {
      PyObject* result = made[results_[i]].get();
      Py_INCREF(result);
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), result);
    }
    return tuple;
  }

  // Runs them below an autograd function, which gets the arguments of the op and this recording.
  Ref differentiate(PyObject* self, PyObject* const* tensor) const {
    Ref output = gradient_[0].call(tensor, self);
    if (item_ < 0) return output;
    PyObject* item = PyTuple_GET_ITEM(output.get(), item_);
    Py_INCREF(item);
    return Ref(item);
  }

  bool has_gradient() const { return !gradient_.empty(); }

 private:
  // A function of Python, and what it is called with: tensors of the call, and constants.
  class Callee {
   public:
    // (function, ((index of a tensor, None) or (-1, constant), ...), ...)
    explicit Callee(PyObject* tuple) : function_(owned(PyTuple_GET_ITEM(tuple, 0))) {
      PyObject* arguments = PyTuple_GET_ITEM(tuple, 1);
      if (PyTuple_GET_SIZE(arguments) >= static_cast<Py_ssize_t>(Kept::most))
        throw std::logic_error("Recording: too many arguments");
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
        PyObject* pair = PyTuple_GET_ITEM(arguments, i);
        arguments_.emplace_back(number(PyTuple_GET_ITEM(pair, 0)), owned(PyTuple_GET_ITEM(pair, 1)));
      }
    }

    // `last` is one argument more, unless it is null.
    Ref call(PyObject* const* tensor, PyObject* last) const {
      PyObject* given[Kept::most];
      std::size_t count = 0;
      for (const auto& [index, constant] : arguments_) given[count++] = index < 0 ? constant.get() : tensor[index];
      if (last != nullptr) given[count++] = last;
      return checked(PyObject_Vectorcall(function_.get(), given, count, nullptr));
    }

   private:
    Ref function_;
    std::vector<std::pair<std::ptrdiff_t, Ref>> arguments_;
  };

  struct Step {
    const KeptFunctions* functions = nullptr;
    void* kept = nullptr;
    int threads = 1, device = 0;
    std::vector<std::pair<std::size_t, std::ptrdiff_t>> places;  // source of memory, bytes from there

    Step() = default;
    Step(Step&& other) noexcept { *this = std::move(other); }
    Step& operator=(Step&& other) noexcept {
      std::swap(functions, other.functions);
      std::swap(kept, other.kept);
      std::swap(threads, other.threads);
      std::swap(device, other.device);
      std::swap(places, other.places);
      return *this;
    }
    ~Step() {
      if (kept != nullptr) functions->drop(kept);
    }
  };

  // (kernel, arguments, outputs, places, threads, device)
  void add_step(PyObject* tuple) {
    const auto item = [tuple](Py_ssize_t i) { return PyTuple_GET_ITEM(tuple, i); };
    const Ref capsule = checked(PyObject_GetAttrString(item(0), kept_attribute));
    Step step;
    step.functions = static_cast<const KeptFunctions*>(PyCapsule_GetPointer(capsule.get(), kept_name));
    if (step.functions == nullptr) throw PythonError{};
    std::size_t tensors = 0;
    step.kept = step.functions->keep(item(0), item(1), item(2), &tensors);
    if (step.kept == nullptr) throw PythonError{};
    PyObject* places = item(3);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(places); ++i) {
      PyObject* pair = PyTuple_GET_ITEM(places, i);
      step.places.emplace_back(number(PyTuple_GET_ITEM(pair, 0)), number(PyTuple_GET_ITEM(pair, 1)));
    }
    if (tensors != step.places.size()) throw std::logic_error("Recording: a place for each tensor is expected");
    step.threads = static_cast<int>(number(item(4)));
    step.device = static_cast<int>(number(item(5)));
    steps_.push_back(std::move(step));
  }

  static Ref owned(PyObject* object) {
    Py_INCREF(object);
    return Ref(object);
  }

  static std::ptrdiff_t number(PyObject* object) {
    const long long result = PyLong_AsLongLong(object);
    if (result == -1 && PyErr_Occurred()) throw PythonError{};
    return static_cast<std::ptrdiff_t>(result);
  }

  std::vector<Step> steps_;
  std::vector<Fresh> fresh_;
  std::vector<Ref> constants_;
  std::vector<void*> constant_addresses_;
  std::vector<std::size_t> results_;  // among the new tensors
  bool several_ = false;
  std::vector<Callee> checks_;    // of the values of tensors
  std::vector<Callee> gradient_;  // the autograd function, if there is one
  std::ptrdiff_t item_ = -1;      // of its output which is the result; -1: all
};

struct RecordingObject {
  PyObject_HEAD Recording* recording;
};

inline const Recording& recording_of(PyObject* object) {
  return *reinterpret_cast<RecordingObject*>(object)->recording;
}

// recording(*arguments): of the arguments of the op, the tensors count
inline PyObject* call_recording(PyObject* self, PyObject* arguments, PyObject*) {
  return guarded(
      [&]() -> PyObject* {
        const TorchState& state = TorchState::get();
        PyObject* tensor[Signature::most_tensors];
        DLTensor seen[Signature::most_tensors];
        int count = 0;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
          PyObject* object = PyTuple_GET_ITEM(arguments, i);
          auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
          if (type != state.tensor && type != state.parameter) continue;
          if (count == Signature::most_tensors) throw std::logic_error("Recording: too many tensors");
          tensor[count] = object;
          if (Torch::get().exchange->tensor_from_object(object, &seen[count++]) != 0) throw PythonError{};
        }
        return recording_of(self).run(tensor, seen, count).release();
      },
      static_cast<PyObject*>(nullptr));
}

// Recording(checks, steps, fresh, constants, results, gradient)
inline PyObject* new_recording(PyTypeObject* type, PyObject* arguments, PyObject*) {
  return guarded(
      [&]() -> PyObject* {
        PyObject *checks, *steps, *fresh, *constants, *results, *gradient;
        if (!PyArg_ParseTuple(arguments, "O!O!O!O!OO", &PyTuple_Type, &checks, &PyTuple_Type, &steps, &PyTuple_Type,
                              &fresh, &PyTuple_Type, &constants, &results, &gradient))
          return nullptr;
        auto recording = std::make_unique<Recording>(checks, steps, fresh, constants, results, gradient);
        Ref self = checked(PyType_GenericAlloc(type, 0));
        reinterpret_cast<RecordingObject*>(self.get())->recording = recording.release();
        return self.release();
      },
      static_cast<PyObject*>(nullptr));
}

inline void free_recording(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<RecordingObject*>(self)->recording;
  type->tp_free(self);
  Py_DECREF(type);
}

inline PyObject* recording_type() {
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(new_recording)},
      {Py_tp_call, reinterpret_cast<void*>(call_recording)},
      {Py_tp_dealloc, reinterpret_cast<void*>(free_recording)},
      {Py_tp_doc, const_cast<char*>("The kernels that a call ran, to be run again; see repdl.replay.")},
      {0, nullptr},
  };
  static PyType_Spec spec = {"repdl.Recording", sizeof(RecordingObject), 0, Py_TPFLAGS_DEFAULT, slots};
  static PyObject* type = PyType_FromSpec(&spec);
  return type;
}

}  // namespace repdl::python
