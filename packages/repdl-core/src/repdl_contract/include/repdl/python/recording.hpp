// A recorded call: the kernels that it ran, one after the other, on which memory, to be run again on other tensors.
#pragma once

#include <cstring>
#include <memory>

#include "repdl/python/callee.hpp"
#include "repdl/python/fresh.hpp"
#include "repdl/python/kept.hpp"
#include "repdl/python/signature.hpp"

namespace repdl::python {

// Sources of memory are numbered: the tensors of the call, the positions of its draws the last of them, then new ones,
// then constants.
class Recording {
 public:
  static constexpr std::size_t most = 96;  // new tensors, or constants

  // What `repdl.replay` found out about a call, as it passes it to `Recording(...)`.
  Recording(PyObject* checks, PyObject* steps, PyObject* fresh, PyObject* constants, PyObject* free, PyObject* results,
            PyObject* gradient, PyObject* spans, PyObject* changed, PyObject* copies, PyObject* draws) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(checks); ++i) {
      PyObject* check = PyTuple_GET_ITEM(checks, i);
      checks_.push_back({Callee(check), Range(PyTuple_GET_ITEM(check, 2))});
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); ++i) add_step(PyTuple_GET_ITEM(steps, i));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fresh); ++i) fresh_.emplace_back(PyTuple_GET_ITEM(fresh, i));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
      constant_addresses_.push_back(Arguments::tensor_of(PyTuple_GET_ITEM(constants, i)));
      constants_.push_back(owned(PyTuple_GET_ITEM(constants, i)));
      DLTensor constant;
      if (Torch::get().exchange->tensor_from_object(constants_.back().get(), &constant) != 0) throw PythonError{};
      if (constant.device_type != dlpack_cpu) constants_stream_ = stream_at(constant);
    }
    if (fresh_.size() > most || constants_.size() > most) throw std::logic_error("Recording: too many tensors");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(free); ++i) {
      const auto item = [&](Py_ssize_t k) {
        return static_cast<std::size_t>(number(PyTuple_GET_ITEM(PyTuple_GET_ITEM(free, i), k)));
      };
      free_.push_back({item(0), item(1), item(2) == sizeof(double)});
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(spans); ++i) {
      PyObject* span = PyTuple_GET_ITEM(spans, i);
      spans_.push_back({static_cast<std::size_t>(number(PyTuple_GET_ITEM(span, 0))), number(PyTuple_GET_ITEM(span, 1)),
                        PyTuple_GET_ITEM(span, 2) == Py_True});
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(changed); ++i)
      changed_.push_back(static_cast<std::size_t>(number(PyTuple_GET_ITEM(changed, i))));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(copies); ++i) {
      const auto item = [&](Py_ssize_t k) {
        return static_cast<std::size_t>(number(PyTuple_GET_ITEM(PyTuple_GET_ITEM(copies, i), k)));
      };
      copies_.push_back({item(0), item(1), item(2)});
    }
    for (Py_ssize_t i = 0; draws != nullptr && i < PyTuple_GET_SIZE(draws); ++i) {
      PyObject* draw = PyTuple_GET_ITEM(draws, i);
      draws_.emplace_back(owned(PyTuple_GET_ITEM(draw, 0)), owned(PyTuple_GET_ITEM(draw, 1)));
    }
    several_ = PyTuple_Check(results);
    if (several_)
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(results); ++i)
        results_.push_back(number(PyTuple_GET_ITEM(results, i)));
    else
      results_.push_back(number(results));
    for (std::size_t i = 0; i < fresh_.size(); ++i) {
      const bool is_result =
          std::find(results_.begin(), results_.end(), static_cast<std::ptrdiff_t>(i)) != results_.end();
      const std::size_t bytes = (fresh_[i].extent() + alignment - 1) / alignment * alignment;
      const bool is_scratch = !is_result && bytes > 0 && scratch_bytes_ + bytes <= most_scratch;
      scratch_.push_back(is_scratch ? static_cast<std::ptrdiff_t>(scratch_bytes_) : -1);
      if (is_scratch) scratch_bytes_ += bytes;
    }
    if (gradient != Py_None) {
      gradient_.emplace_back(gradient);
      item_ = number(PyTuple_GET_ITEM(gradient, 2));
      shared_ = owned(PyTuple_GET_ITEM(gradient, 3));
      for (auto [numbers, name] : {std::pair{&saved_, "saved"}, {&constant_, "constant"}}) {
        const Ref given = checked(PyObject_GetAttrString(shared_.get(), name));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given.get()); ++i)
          numbers->push_back(number(PyTuple_GET_ITEM(given.get(), i)));
      }
    }
  }

  // Runs the kernels. `tensor` and `seen` are the tensors of the call, `numbers` of the signature. Null, with nothing
  // done and no error of Python, where the function itself has something to say about where the tensors lie.
  Ref run(PyObject* const* tensor, const DLTensor* seen, int count, const double* numbers) const {
    for (const auto& [check, range] : checks_)
      if (!range.holds(seen)) check.call(tensor, nullptr);
    void* base[Signature::most_tensors + 2 * most];
    std::size_t bases = 0;
    for (int i = 0; i < count; ++i) base[bases++] = static_cast<std::byte*>(seen[i].data) + seen[i].byte_offset;
    if (is_shared(base)) return Ref();
    Made made;
    const std::unique_ptr<std::byte, Scratch> scratch(scratch_bytes_ > 0 ? Scratch::take(scratch_bytes_) : nullptr);
    for (std::size_t i = 0; i < fresh_.size(); ++i, ++bases) {
      base[bases] = scratch.get() + std::max<std::ptrdiff_t>(scratch_[i], 0);
      made.add(scratch_[i] < 0 ? fresh_[i].make(&base[bases]) : Ref());
    }
    double element[most];  // or a float in its place
    for (const FreeConstant& constant : free_) {
      const double number = numbers[constant.number];
      if (constant.is_double)
        element[constant.index] = number;
      else
        put_float(number, &element[constant.index]);
    }
    std::size_t next = 0;
    for (std::size_t i = 0; i < constant_addresses_.size(); ++i) {
      const bool is_free = next < free_.size() && free_[next].index == i;
      base[bases++] = is_free ? &element[i] : constant_addresses_[i];
      next += is_free;
    }
    const int at = leader(seen, count);
    void* stream = stream_at(seen[at]);
    for (const Step& step : steps_) {
      void* addresses[most_addresses];
      for (std::size_t k = 0; k < step.places.size(); ++k)
        addresses[k] = static_cast<std::byte*>(base[step.places[k].first]) + step.places[k].second;
      double given[Kept::most];
      for (std::size_t k = 0; k < step.numbers.size(); ++k) {
        const auto& [index, value] = step.numbers[k];
        given[k] = index < 0 ? value : numbers[index];
      }
      if (step.functions->run(step.kept, addresses, step.numbers.empty() ? nullptr : given, step.threads, step.device,
                              stream, tensor[at]) != 0)
        throw PythonError{};
    }
    for (const Copy& copy : copies_)
      if (seen[copy.target].device_type == dlpack_cpu)
        std::copy_n(static_cast<const std::byte*>(base[copy.source]), copy.bytes,
                    static_cast<std::byte*>(base[copy.target]));
      else
        checked(PyObject_CallMethodOneArg(tensor[copy.target], TorchState::get().copy,
                                          made.tensor[copy.source - static_cast<std::size_t>(count)]));
    if (!changed_.empty()) tell_autograd(tensor);
    if (!several_) return result(tensor, made, results_[0]);
    Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(results_.size())));
    for (std::size_t i = 0; i < results_.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), result(tensor, made, results_[i]).release());
    return tuple;
  }

  std::size_t draws() const { return draws_.size(); }

  // The position of each draw, as generators say it, which then go on.
  std::vector<Ref> positions() const {
    std::vector<Ref> result;
    for (const auto& [take, count] : draws_) result.push_back(checked(PyObject_CallOneArg(take.get(), count.get())));
    return result;
  }

  // Whether the current stream is the one on which the constants were written: the kernels of another one would read
  // them too early, or when their memory is somebody else's. On the host any is.
  bool has_constants(const DLTensor* seen, int count) const {
    return constants_.empty() || stream_at(seen[leader(seen, count)]) == constants_stream_;
  }

  // Runs them below an autograd function, which gets the arguments of the op and this recording.
  Ref differentiate(PyObject* self, PyObject* const* tensor) const {
    Ref output = gradient_[0].call(tensor, self);
    if (item_ < 0) return output;
    PyObject* item = PyTuple_GET_ITEM(output.get(), item_);
    Py_INCREF(item);
    return Ref(item);
  }

  // What `setup_context` did with the context of autograd, for other tensors.
  void set_up(PyObject* context, PyObject* const* tensor, int count, PyObject* output) const {
    const auto set = [&](PyObject* name, const std::vector<std::ptrdiff_t>& numbers) {
      const Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const std::ptrdiff_t n = numbers[i];
        PyObject* value = n < 0       ? Py_None
                          : n < count ? tensor[n]
                          : !several_ ? output
                                      : PyTuple_GET_ITEM(output, n - count);
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), owned(value).release());
      }
      if (PyObject_SetAttr(context, name, tuple.get()) != 0) throw PythonError{};
    };
    const TorchState& state = TorchState::get();
    set(state.to_save, saved_);
    if (!constant_.empty()) set(state.non_differentiable, constant_);
    if (PyObject_SetAttr(context, state.shared, shared_.get()) != 0) throw PythonError{};
  }

  bool has_gradient() const { return !gradient_.empty(); }

  // Whether torch lets nobody write into one of the call's tensors that is written: one of inference mode, after it.
  bool is_frozen(PyObject* const* tensor) const {
    const TorchState& state = TorchState::get();
    const auto is_inference = [&](std::size_t i) {
      PyObject* target = tensor[has_gradient() ? gradient_[0].source(i) : i];
      return checked(state.is_inference.ask(target).release()).get() == Py_True;
    };
    return std::any_of(changed_.begin(), changed_.end(), is_inference) &&
           state.is_inference_mode.ask().get() != Py_True;
  }

 private:
  static constexpr std::size_t most_addresses = Kept::most + Kept::most_tensors;

  // The new tensors of a call; null for one that is scratch memory.
  struct Made {
    PyObject* tensor[most];  // the first `count`
    std::size_t count = 0;

    Made() = default;
    Made(const Made&) = delete;
    Made& operator=(const Made&) = delete;
    ~Made() {
      while (count > 0) Py_XDECREF(tensor[--count]);
    }
    void add(Ref object) { tensor[count++] = object.release(); }
  };

  // Memory of the host for what is neither argument nor result, small enough that a tensor would cost more.
  static constexpr std::size_t alignment = 64, most_scratch = std::size_t{1} << 18;
  struct Scratch {
    static std::byte* take(std::size_t bytes) {
      return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{alignment}));
    }
    void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{alignment}); }
  };

  // The tensor on whose device kernels run: the first that is not on the host, if there is one.
  static int leader(const DLTensor* seen, int count) {
    for (int i = 0; i < count; ++i)
      if (seen[i].device_type != dlpack_cpu) return i;
    return 0;
  }

  // The stream that is current on the device of a tensor; null on the host.
  static void* stream_at(const DLTensor& tensor) {
    void* stream = nullptr;
    if (tensor.device_type != dlpack_cpu &&
        Torch::get().exchange->current_stream(tensor.device_type, tensor.device_id, &stream) != 0)
      throw PythonError{};
    return stream;
  }

  static Ref result(PyObject* const* tensor, const Made& made, std::ptrdiff_t index) {
    return owned(index >= 0 ? made.tensor[index] : index == -1 ? Py_None : tensor[-2 - index]);
  }

  // Memory of a tensor of the call, from its address on.
  struct Span {
    std::size_t tensor;
    std::ptrdiff_t bytes;
    bool written;
  };

  // Of all of a source of memory into another one; on a device, of a new tensor by torch.
  struct Copy {
    std::size_t source, target, bytes;
  };

  // Whether a tensor that is written shares memory with another one (repdl.ops._step.check_memory).
  bool is_shared(void* const* base) const {
    struct Place {
      const std::byte *begin, *end;
      bool written;
    };
    Place places[most_addresses];
    std::size_t count = 0;
    for (const Span& span : spans_) {
      const auto* begin = static_cast<const std::byte*>(base[span.tensor]);
      if (span.bytes > 0) places[count++] = {begin, begin + span.bytes, span.written};
    }
    std::sort(places, places + count, [](const Place& a, const Place& b) { return a.begin < b.begin; });
    const std::byte *end = nullptr, *end_written = nullptr;
    for (std::size_t i = 0; i < count; ++i) {
      const Place& place = places[i];
      if (place.begin < (place.written ? end : end_written)) return true;
      end = std::max(end, place.end);
      if (place.written) end_written = std::max(end_written, place.end);
    }
    return false;
  }

  // Kernels write through addresses, which autograd does not see.
  void tell_autograd(PyObject* const* tensor) const {
    const Ref all = checked(PyTuple_New(static_cast<Py_ssize_t>(changed_.size())));
    for (std::size_t i = 0; i < changed_.size(); ++i) {
      Py_INCREF(tensor[changed_[i]]);
      PyTuple_SET_ITEM(all.get(), static_cast<Py_ssize_t>(i), tensor[changed_[i]]);
    }
    checked(PyObject_CallOneArg(TorchState::get().increment_version, all.get()));
  }

  struct Step {
    const KeptFunctions* functions = nullptr;
    void* kept = nullptr;
    int threads = 1, device = 0;
    std::vector<std::pair<std::size_t, std::ptrdiff_t>> places;  // source of memory, bytes from there
    std::vector<std::pair<std::ptrdiff_t, double>> numbers;      // which of the signature, or -1 and a value; or none

    Step() = default;
    Step(Step&& other) noexcept { *this = std::move(other); }
    Step& operator=(Step&& other) noexcept {
      std::swap(functions, other.functions);
      std::swap(kept, other.kept);
      std::swap(threads, other.threads);
      std::swap(device, other.device);
      std::swap(places, other.places);
      std::swap(numbers, other.numbers);
      return *this;
    }
    ~Step() {
      if (kept != nullptr) functions->drop(kept);
    }
  };

  // (kernel, arguments, outputs, places, numbers, threads, device)
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
    if (tensors > most_addresses) throw std::logic_error("Recording: too many tensors");
    if (tensors != step.places.size()) throw std::logic_error("Recording: a place for each tensor is expected");
    PyObject* numbers = item(4);
    if (PyTuple_GET_SIZE(numbers) > static_cast<Py_ssize_t>(Kept::most))
      throw std::logic_error("Recording: too many numbers");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); ++i) {
      PyObject* pair = PyTuple_GET_ITEM(numbers, i);
      step.numbers.emplace_back(number(PyTuple_GET_ITEM(pair, 0)), PyFloat_AsDouble(PyTuple_GET_ITEM(pair, 1)));
    }
    step.threads = static_cast<int>(number(item(5)));
    step.device = static_cast<int>(number(item(6)));
    steps_.push_back(std::move(step));
  }

  std::vector<Step> steps_;
  std::vector<Fresh> fresh_;
  std::vector<std::ptrdiff_t> scratch_;  // where each of them is in the scratch memory; -1: a tensor
  std::size_t scratch_bytes_ = 0;
  // A 0-D constant that is a number of the call.
  struct FreeConstant {
    std::size_t index, number;
    bool is_double;  // else float
  };

  // The float nearest to a double that is among a float's normal numbers: in integers, whatever the thread's
  // floating-point environment.
  static void put_float(double number, void* place) {
    std::uint64_t bits;
    static_assert(sizeof bits == sizeof number);
    std::memcpy(&bits, &number, sizeof bits);
    const std::uint64_t sign = bits >> 63 << 31, size = bits & ~(std::uint64_t{1} << 63);
    const std::uint64_t scaled = size - (std::uint64_t{1023 - 127} << 52);
    const auto rounded = static_cast<std::uint32_t>(sign | (scaled + 0x0FFFFFFF + (scaled >> 29 & 1)) >> 29);
    std::memcpy(place, &rounded, sizeof rounded);
  }

  std::vector<Ref> constants_;
  std::vector<void*> constant_addresses_;
  void* constants_stream_ = nullptr;
  std::vector<FreeConstant> free_;       // in their order
  std::vector<std::ptrdiff_t> results_;  // index of a new tensor; -1: None; -2, -3, ...: tensors of the call
  bool several_ = false;
  std::vector<std::ptrdiff_t> saved_, constant_;  // of autograd: tensors of the call, then outputs; -1: None
  Ref shared_;                                    // what the derivative needs
  std::vector<Span> spans_;                       // what may share no memory
  std::vector<std::size_t> changed_;              // tensors of the call, or of its node of autograd
  std::vector<Copy> copies_;                      // after the kernels
  std::vector<std::pair<Ref, Ref>> draws_;        // functions that give positions, and of how many elements
  std::vector<std::pair<Callee, Range>> checks_;  // of the values of tensors
  std::vector<Callee> gradient_;                  // the autograd function, if there is one
  std::ptrdiff_t item_ = -1;                      // of its output which is the result; -1: all
};

struct RecordingObject {
  PyObject_HEAD Recording* recording;
};

inline const Recording& recording_of(PyObject* object) {
  return *reinterpret_cast<RecordingObject*>(object)->recording;
}

// Recording.forward(context, *tensors, recording): the forward function of a node of autograd
inline PyObject* forward_recording(PyObject*, PyObject* const* given, Py_ssize_t all) {
  return guarded(
      [&]() -> PyObject* {
        const int count = static_cast<int>(all) - 2;
        if (count < 0 || count > Signature::most_tensors) throw std::logic_error("Recording: number of tensors");
        const Recording& recording = recording_of(given[all - 1]);
        DLTensor seen[Signature::most_tensors];
        for (int i = 0; i < count; ++i)
          if (Torch::get().exchange->tensor_from_object(given[1 + i], &seen[i]) != 0) throw PythonError{};
        Ref output = recording.run(given + 1, seen, count, nullptr);
        recording.set_up(given[0], given + 1, count, output.get());
        return output.release();
      },
      static_cast<PyObject*>(nullptr));
}

// Recording.backward(context, *gradients): its derivative, a function of gradients and of what forward saved
inline PyObject* backward_recording(PyObject*, PyObject* const* given, Py_ssize_t all) {
  return guarded(
      [&]() -> PyObject* {
        const TorchState& state = TorchState::get();
        const Ref saved = checked(PyObject_GetAttr(given[0], state.saved_tensors));
        const Ref shared = checked(PyObject_GetAttr(given[0], state.shared));
        const Ref derivative = checked(PyObject_GetAttr(shared.get(), state.derivative));
        PyObject* arguments[2 * Signature::most_tensors];
        std::size_t count = 0;
        const Py_ssize_t gradients = all - 1, tensors = PyTuple_GET_SIZE(saved.get());
        if (gradients + tensors > 2 * Signature::most_tensors) throw std::logic_error("Recording: number of tensors");
        for (Py_ssize_t i = 0; i < gradients; ++i) arguments[count++] = given[1 + i];
        for (Py_ssize_t i = 0; i < tensors; ++i) arguments[count++] = PyTuple_GET_ITEM(saved.get(), i);
        return PyObject_Vectorcall(derivative.get(), arguments, count, nullptr);
      },
      static_cast<PyObject*>(nullptr));
}

// Recording.node_method(): `backward` as a method of a node of autograd
inline PyObject* node_method(PyObject* type, PyObject*) {
  const Ref function(PyObject_GetAttrString(type, "backward"));
  return function ? PyInstanceMethod_New(function.get()) : nullptr;
}

// Recording(checks, steps, fresh, constants, free, results, gradient, spans, changed, copies, draws=())
inline PyObject* new_recording(PyTypeObject* type, PyObject* arguments, PyObject*) {
  return guarded(
      [&]() -> PyObject* {
        PyObject *checks, *steps, *fresh, *constants, *free, *results, *gradient, *spans, *changed, *copies;
        PyObject* draws = nullptr;
        if (!PyArg_ParseTuple(arguments, "O!O!O!O!O!OOO!O!O!|O!", &PyTuple_Type, &checks, &PyTuple_Type, &steps,
                              &PyTuple_Type, &fresh, &PyTuple_Type, &constants, &PyTuple_Type, &free, &results,
                              &gradient, &PyTuple_Type, &spans, &PyTuple_Type, &changed, &PyTuple_Type, &copies,
                              &PyTuple_Type, &draws))
          return nullptr;
        auto recording = std::make_unique<Recording>(checks, steps, fresh, constants, free, results, gradient, spans,
                                                     changed, copies, draws);
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
  static PyMethodDef methods[] = {
      {"backward", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(backward_recording)),
       METH_FASTCALL | METH_STATIC, "backward(context, *gradients): the derivative of what forward ran"},
      {"forward", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(forward_recording)),
       METH_FASTCALL | METH_STATIC, "forward(context, *tensors, recording): run it below a node of autograd"},
      {"node_method", node_method, METH_NOARGS | METH_CLASS, "backward as a method of a node of autograd"},
      {nullptr, nullptr, 0, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(new_recording)},
      {Py_tp_methods, methods},
      {Py_tp_dealloc, reinterpret_cast<void*>(free_recording)},
      {Py_tp_doc, const_cast<char*>("The kernels that a call ran, to be run again; see repdl.replay.")},
      {0, nullptr},
  };
  static PyType_Spec spec = {"repdl.Recording", sizeof(RecordingObject), 0, Py_TPFLAGS_DEFAULT, slots};
  static PyObject* type = PyType_FromSpec(&spec);
  return type;
}

}  // namespace repdl::python
