// A function whose calls are recorded once a signature and run again without Python: the fast way of small calls.
//
// `Call(function, record, epoch, has_free_numbers)` is called as `function` is. Where nothing of torch is at work and a
// call of this signature was recorded, it runs the recorded kernels; everything else, errors too, is the function's.
// `Shortcut`, with the same arguments, is the same for a method of torch.Tensor and calls without gradients: what is
// not called at once, but taken from the class or an object, is the method itself.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "repdl/python/choice.hpp"
#include "repdl/python/recording_type.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

struct Entry {
  std::vector<std::int64_t> signature;
  Ref recording;      // None: not to be run again; False: its numbers are not free
  bool seen = false;  // a call is recorded when it is seen again
};

using Entries = std::unordered_multimap<std::uint64_t, Entry>;

struct CallObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *function, *record, *epoch, *dict, *weak;
  PyObject* seen_epoch;  // of the entries
  bool has_free_numbers, takes_gradients;
  Entries* entries;
};

// Whether this thread records a call.
inline bool& records() {
  static thread_local bool recording = false;
  return recording;
}

// It does, to the end of the block.
class Recorder {
 public:
  Recorder() { records() = true; }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() { records() = false; }
};

// No entries from here on. What they kept is let go of afterwards: that may run other threads, which look here.
inline void forget(CallObject& call) { const Entries forgotten = std::exchange(*call.entries, {}); }

// The entry of a signature, made where there is none.
inline Entry& entry_of(CallObject& call, const Signature& signature) {
  constexpr std::size_t most = 4096;
  const std::uint64_t hash = signature.hash();
  auto [entry, last] = call.entries->equal_range(hash);
  for (; entry != last; ++entry)
    if (std::equal(signature.begin(), signature.end(), entry->second.signature.begin(), entry->second.signature.end()))
      return entry->second;
  if (call.entries->size() >= most) forget(call);
  return call.entries->emplace(hash, Entry{{signature.begin(), signature.end()}, Ref(), false})->second;
}

// Whether recordings hold now: none does while its one item is None, and all are forgotten where it is another.
inline bool has_epoch(CallObject& call) {
  if (PyList_GET_SIZE(call.epoch) == 0)
    raise(PyExc_RuntimeError, "Call: its epoch is an empty list, expected one item");
  PyObject* now = PyList_GET_ITEM(call.epoch, 0);
  if (now == Py_None) return false;
  if (now != call.seen_epoch) {
    Py_INCREF(now);
    Py_XSETREF(call.seen_epoch, now);
    forget(call);
  }
  return true;
}

// Whether shortcuts may be taken now.
inline bool& shortcuts_allowed() {
  static bool allowed = false;
  return allowed;
}

// record(function, arguments, named, differentiates, has_free_numbers) -> (result, recording, None or False)
inline Ref record_call(CallObject& call, const Signature& signature, PyObject* const* given, Py_ssize_t count,
                       PyObject* names) {
  const Ref arguments = checked(PyTuple_New(count)), named = checked(PyDict_New());
  for (Py_ssize_t i = 0; i < count; ++i) {
    Py_INCREF(given[i]);
    PyTuple_SET_ITEM(arguments.get(), i, given[i]);
  }
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i)
    if (PyDict_SetItem(named.get(), PyTuple_GET_ITEM(names, i), given[count + i]) != 0) throw PythonError{};
  const Ref before = owned(call.seen_epoch);  // kept, so that no later one has its address
  const auto record = [&] {
    const Recorder recorder;
    return checked(PyObject_CallFunctionObjArgs(call.record, call.function, arguments.get(), named.get(),
                                                signature.differentiates() ? Py_True : Py_False,
                                                signature.has_free_numbers() ? Py_True : Py_False, nullptr));
  };
  const Ref made = record();
  const Items pair(made.get(), "what records a call", 2);
  Ref recording = owned(pair[1]);
  if (recording.get() == Py_False && !signature.has_free_numbers()) recording = owned(Py_None);
  if (recording.get() != Py_None && recording.get() != Py_False) recording_of(recording.get());
  if (has_epoch(call) && call.seen_epoch == before.get()) std::swap(entry_of(call, signature).recording, recording);
  return owned(pair[0]);
}

// Whether torch has more to do with a call than compute it, seen at little cost: a mode, which would see what else is
// asked of tensors, or a gradient.
inline bool is_seen_by_torch(PyObject* const* given, Py_ssize_t count) {
  const TorchState& state = TorchState::get();
  if (!state.quiet.front().first.is(state.quiet.front().second)) return true;
  return state.is_grad_enabled.is(Py_True) && std::any_of(given, given + count, [&](PyObject* object) {
           auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
           return (type == state.tensor || type == state.parameter) && state.requires_grad.is(Py_True, object);
         });
}

// Reads the signature of a call; false where the function is to be called, which says what is wrong if anything is.
inline bool read(Signature& signature, PyObject* const* given, Py_ssize_t count, PyObject* names, bool free_numbers) {
  try {
    if (signature.read(given, count, names, free_numbers)) return true;
  } catch (const PythonError&) {
  }
  PyErr_Clear();
  return false;
}

// The result of the fast way; null where the function is to be called.
inline Ref call_fast(CallObject& call, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  if (!call.takes_gradients && is_seen_by_torch(given, count)) return Ref();
  if (!TorchState::get().is_quiet()) return Ref();  // first: a mode would see what is asked of tensors
  Signature signature;
  if (!read(signature, given, count, names, call.has_free_numbers)) return Ref();
  if (!call.takes_gradients && signature.differentiates()) return Ref();
  // A derivative keeps numbers, so that they are part of the signature.
  if (call.has_free_numbers && signature.differentiates() && !read(signature, given, count, names, false)) return Ref();
  Entry* entry = &entry_of(call, signature);
  if (entry->recording.get() == Py_False) {
    if (!read(signature, given, count, names, false)) return Ref();
    entry = &entry_of(call, signature);
  }
  if (!entry->recording) {
    if (entry->seen) return record_call(call, signature, given, count, names);
    entry->seen = true;
    return Ref();
  }
  if (entry->recording.get() == Py_None) return Ref();
  const Ref recording = owned(entry->recording.get());  // another thread may forget it meanwhile
  const Recording& found = recording_of(recording.get());
  const std::size_t tensors = found.draws() + static_cast<std::size_t>(signature.tensors());
  if (tensors > Signature::most_tensors) return Ref();
  found.expect(static_cast<int>(tensors), signature.has_free_numbers() ? signature.numbers().length : 0);
  if (!found.has_constants(signature.seen_begin(), signature.tensors())) return Ref();
  if (found.is_frozen(signature.tensors_begin())) return Ref();
  for (const Ref& position : found.positions()) signature.append(position.get());
  if (found.has_gradient()) return found.differentiate(recording.get(), signature.tensors_begin());
  return found.run(signature.tensors_begin(), signature.seen_begin(), signature.tensors(), signature.numbers());
}

inline PyObject* vectorcall(PyObject* self, PyObject* const* given, std::size_t flags, PyObject* names) {
  CallObject& call = *reinterpret_cast<CallObject*>(self);
  const Ref function = owned(call.function);  // it may be set to another one meanwhile
  if ((call.takes_gradients || shortcuts_allowed()) && !records()) {
    const auto fast = [&] {
      return has_epoch(call) ? call_fast(call, given, PyVectorcall_NARGS(flags), names) : Ref();
    };
    Ref result = guarded(fast, Ref());
    if (result || PyErr_Occurred()) return result.release();
  }
  return PyObject_Vectorcall(function.get(), given, flags, names);
}

// (function, record, epoch, has_free_numbers=False)
inline PyObject* make_call(PyTypeObject* type, PyObject* arguments, PyObject* named, bool takes_gradients) {
  static const char* known[] = {"function", "record", "epoch", "has_free_numbers", nullptr};
  PyObject *function, *record, *epoch;
  int has_free_numbers = 0;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "OOO!|p:Call", const_cast<char**>(known), &function, &record,
                                   &PyList_Type, &epoch, &has_free_numbers))
    return nullptr;
  for (PyObject* given : {function, record})
    if (!PyCallable_Check(given))
      return PyErr_Format(PyExc_TypeError, "Call: got a %s, expected a function", Py_TYPE(given)->tp_name);
  if (PyList_GET_SIZE(epoch) != 1)
    return PyErr_Format(PyExc_ValueError, "Call: its epoch is a list of %zd items, expected one",
                        PyList_GET_SIZE(epoch));
  return guarded(
      [&] {
        auto entries = std::make_unique<Entries>();
        Ref self = checked(PyType_GenericAlloc(type, 0));
        CallObject& call = *reinterpret_cast<CallObject*>(self.get());
        call.vectorcall = vectorcall;
        call.has_free_numbers = has_free_numbers != 0;
        call.takes_gradients = takes_gradients;
        call.function = owned(function).release();
        call.record = owned(record).release();
        call.epoch = owned(epoch).release();
        call.entries = entries.release();
        return self.release();
      },
      static_cast<PyObject*>(nullptr));
}

inline PyObject* new_call(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  return make_call(type, arguments, named, true);
}

inline PyObject* new_shortcut(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  return make_call(type, arguments, named, false);
}

inline int traverse_call(PyObject* self, visitproc visit, void* arg) {
  const CallObject& call = *reinterpret_cast<CallObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(call.function);
  Py_VISIT(call.record);
  Py_VISIT(call.epoch);
  Py_VISIT(call.dict);
  Py_VISIT(call.seen_epoch);
  if (call.entries != nullptr)
    for (const auto& [hash, entry] : *call.entries) Py_VISIT(entry.recording.get());
  return 0;
}

inline int clear_call(PyObject* self) {
  CallObject& call = *reinterpret_cast<CallObject*>(self);
  Py_CLEAR(call.dict);
  if (call.entries != nullptr) forget(call);
  return 0;
}

inline void free_call(PyObject* self) {
  CallObject& call = *reinterpret_cast<CallObject*>(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (call.weak != nullptr) PyObject_ClearWeakRefs(self);
  delete call.entries;
  for (PyObject** object : {&call.function, &call.record, &call.epoch, &call.dict, &call.seen_epoch}) Py_CLEAR(*object);
  type->tp_free(self);
  Py_DECREF(type);
}

// As a function: a method where it is an attribute of a class.
inline PyObject* bind_call(PyObject* self, PyObject* object, PyObject*) {
  return object != nullptr && object != Py_None ? PyMethod_New(self, object) : owned(self).release();
}

// A call `object.method(...)` does not come here, since the type says that it is a method descriptor.
inline PyObject* bind_original(PyObject* self, PyObject* object, PyObject* type) {
  const Ref function = owned(reinterpret_cast<CallObject*>(self)->function);
  const descrgetfunc bind = Py_TYPE(function.get())->tp_descr_get;
  return bind == nullptr ? owned(function.get()).release() : bind(function.get(), object, type);
}

// As a function: pickled and copied by its name.
inline PyObject* reduce_call(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

// Shortcut.allow(allowed): whether they are taken, or calls are the methods' own
inline PyObject* allow_shortcuts(PyObject*, PyObject* allowed) {
  const int is_true = PyObject_IsTrue(allowed);
  if (is_true < 0) return nullptr;
  shortcuts_allowed() = is_true != 0;
  Py_RETURN_NONE;
}

inline PyObject* reduce_shortcut(PyObject* self, PyObject*) {
  return PyObject_CallMethod(reinterpret_cast<CallObject*>(self)->function, "__reduce__", nullptr);
}

inline PyObject* show_call(PyObject* self) { return PyObject_Repr(reinterpret_cast<CallObject*>(self)->function); }

// Call.define_call(function): what the type shows as its `__call__`. A call goes through the slot, not through it;
// it is for those who read what a call does without doing it, as torch.compile.
inline PyObject* define_call(PyObject* type, PyObject* function) {
  auto* shown = reinterpret_cast<PyTypeObject*>(type);
  if (PyDict_SetItemString(shown->tp_dict, "__call__", function) != 0) return nullptr;
  PyType_Modified(shown);
  Py_RETURN_NONE;
}

// Call.is_free(number): whether a signature with free numbers is without it.
inline PyObject* is_free(PyObject*, PyObject* number) {
  const double value = PyFloat_AsDouble(number);
  return value == -1 && PyErr_Occurred() ? nullptr : PyBool_FromLong(Signature::is_free(value));
}

// How many calls are recorded.
inline PyObject* get_recordings(PyObject* self, void*) {
  CallObject& call = *reinterpret_cast<CallObject*>(self);
  return guarded(
      [&] {
        long count = 0;
        if (has_epoch(call))
          for (const auto& [hash, entry] : *call.entries)
            count += entry.recording && !PyBool_Check(entry.recording.get()) && entry.recording.get() != Py_None;
        return PyLong_FromLong(count);
      },
      static_cast<PyObject*>(nullptr));
}

inline PyObject* get_wrapped(PyObject* self, void*) {
  return owned(reinterpret_cast<CallObject*>(self)->function).release();
}

// Another function: what was recorded is of the one before.
inline int set_wrapped(PyObject* self, PyObject* function, void*) {
  CallObject& call = *reinterpret_cast<CallObject*>(self);
  if (function == nullptr || !PyCallable_Check(function)) {
    PyErr_Format(PyExc_TypeError, "__wrapped__ is what a call does: got %s, expected a function",
                 function == nullptr ? "nothing" : Py_TYPE(function)->tp_name);
    return -1;
  }
  const Ref before(std::exchange(call.function, owned(function).release()));
  if (before.get() != function) forget(call);
  return 0;
}

inline PyObject* call_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(CallObject, vectorcall), READONLY, nullptr},
      {"__dictoffset__", T_PYSSIZET, offsetof(CallObject, dict), READONLY, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(CallObject, weak), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr},
  };
  static PyGetSetDef getters[] = {
      {"__wrapped__", get_wrapped, set_wrapped, "the function", nullptr},
      {"recordings", get_recordings, nullptr, "how many calls are recorded", nullptr},
      {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr},
  };
  static PyMethodDef methods[] = {
      {"__reduce__", reduce_call, METH_NOARGS, nullptr},
      {"define_call", define_call, METH_O | METH_CLASS, "define_call(function): show it as __call__ of the type"},
      {"is_free", is_free, METH_O | METH_STATIC,
       "is_free(number): whether a signature with free numbers is without it"},
      {nullptr, nullptr, 0, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(new_call)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse_call)},
      {Py_tp_clear, reinterpret_cast<void*>(clear_call)},
      {Py_tp_dealloc, reinterpret_cast<void*>(free_call)},
      {Py_tp_descr_get, reinterpret_cast<void*>(bind_call)},
      {Py_tp_repr, reinterpret_cast<void*>(show_call)},
      {Py_tp_members, members},
      {Py_tp_getset, getters},
      {Py_tp_methods, methods},
      {0, nullptr},
  };
  static PyType_Spec spec = {"repdl.Call", sizeof(CallObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_BASETYPE,
                             slots};
  static PyObject* type = PyType_FromSpec(&spec);
  return type;
}

inline PyObject* shortcut_type() {
  static PyMethodDef methods[] = {
      {"__reduce__", reduce_shortcut, METH_NOARGS, nullptr},
      {"allow", allow_shortcuts, METH_O | METH_STATIC,
       "allow(allowed): whether shortcuts are taken, or calls are the methods' own"},
      {nullptr, nullptr, 0, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(new_shortcut)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse_call)},
      {Py_tp_clear, reinterpret_cast<void*>(clear_call)},
      {Py_tp_descr_get, reinterpret_cast<void*>(bind_original)},
      {Py_tp_methods, methods},
      {0, nullptr},
  };
  static PyType_Spec spec = {
      "repdl.Shortcut", sizeof(CallObject), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, slots};
  static PyObject* type = nullptr;
  if (type == nullptr && call_type() != nullptr) {
    const Ref bases(PyTuple_Pack(1, call_type()));
    type = bases ? PyType_FromSpecWithBases(&spec, bases.get()) : nullptr;
  }
  return type;
}

// A number that goes up when what these types take changes.
constexpr long kit = 5;

// Adds `Call`, `Shortcut`, `Choice`, `Recording`, their number and how many new tensors or constants one has to a
// module, where torch has what they need. False with Python's error set.
[[nodiscard]] inline bool add_call(PyObject* module) {
  const auto add = [module] {
    if (Torch::get().exchange == nullptr) return true;
    TorchState::get(), TorchMemory::get();  // no call finds anything that would have to be imported
    for (auto [name, type] : {std::pair{"Call", call_type()},
                              {"Shortcut", shortcut_type()},
                              {"Choice", choice_type()},
                              {"Recording", recording_type()}})
      if (type == nullptr || PyModule_AddObjectRef(module, name, type) != 0) return false;
    for (auto [name, value] : {std::pair{"KIT", kit}, {"MOST_TENSORS", long{Recording::most}}})
      if (PyModule_AddIntConstant(module, name, value) != 0) return false;
    return true;
  };
  return guarded(add, false);
}

}  // namespace repdl::python
#pragma GCC visibility pop
