// A function whose calls are recorded once a signature and repeated without Python.
//
// A call runs the recorded kernels if torch has no more to do with it than compute it, and a call of this signature was
// recorded. All others are calls of the function, which raises all errors.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "repdl/python/recording_type.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// What is known of a signature.
struct Entry {
  enum class State {
    is_new,
    called_once,    // the next call is recorded
    recorded,       // `recording` is one
    not_cacheable,  // the function is called
    needs_scalars,  // the signature has to have the values of all scalars
  };
  std::vector<std::int64_t> signature;
  State state = State::is_new;
  Ref recording;
};

using Entries = std::unordered_multimap<std::uint64_t, Entry>;

struct CallObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *function, *record, *cell, *dict, *weak;  // `cell`: a list of the generation
  PyObject* generation;                              // of the entries
  bool variable_scalars, takes_gradients;
  Entries* entries;
  std::size_t words;  // of all signatures
};

// Whether this thread records a call.
inline bool& is_recording_call() {
  static thread_local bool recording = false;
  return recording;
}

// It does, to the end of the block.
class Recorder {
 public:
  Recorder() { is_recording_call() = true; }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() { is_recording_call() = false; }
};

// Removes all entries first and releases them then: that may run other threads, which look here.
inline void clear(CallObject& call) {
  call.words = 0;
  const Entries released = std::exchange(*call.entries, {});
}

// The entry of a signature, made if there is none.
inline Entry& entry_of(CallObject& call, const Signature& signature) {
  // Of a program whose sizes never repeat; all go, as none is known to be needed.
  constexpr std::size_t most = 4096, most_words = std::size_t{1} << 22;
  const std::uint64_t hash = signature.hash();
  auto [entry, last] = call.entries->equal_range(hash);
  for (; entry != last; ++entry)
    if (std::equal(signature.begin(), signature.end(), entry->second.signature.begin(), entry->second.signature.end()))
      return entry->second;
  if (call.entries->size() >= most || call.words >= most_words) clear(call);
  call.words += static_cast<std::size_t>(signature.end() - signature.begin());
  return call.entries->emplace(hash, Entry{{signature.begin(), signature.end()}, Entry::State::is_new, Ref()})->second;
}

// Clears the entries of another generation. False while there is none: no recording holds then.
inline bool has_generation(CallObject& call) {
  if (PyList_GET_SIZE(call.cell) == 0)
    raise(PyExc_RuntimeError, "Call: its list of a generation is empty, expected one item");
  PyObject* now = PyList_GET_ITEM(call.cell, 0);
  if (now == Py_None) return false;
  if (now != call.generation) {
    Py_INCREF(now);
    Py_XSETREF(call.generation, now);
    clear(call);
  }
  return true;
}

// Whether shortcuts are taken now.
inline bool& shortcuts_allowed() {
  static bool allowed = false;
  return allowed;
}

// Calls record(function, arguments, named, differentiates, variable_scalars), which returns an `Outcome`.
inline Ref call_record(const CallObject& call, const Signature& signature, PyObject* const* given, Py_ssize_t count,
                       PyObject* names) {
  const Ref arguments = checked(PyTuple_New(count)), named = checked(PyDict_New());
  for (Py_ssize_t i = 0; i < count; ++i) {
    Py_INCREF(given[i]);
    PyTuple_SET_ITEM(arguments.get(), i, given[i]);
  }
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i)
    if (PyDict_SetItem(named.get(), PyTuple_GET_ITEM(names, i), given[count + i]) != 0) throw PythonError{};
  const Recorder recorder;
  return checked(PyObject_CallFunctionObjArgs(call.record, call.function, arguments.get(), named.get(),
                                              signature.differentiates() ? Py_True : Py_False,
                                              signature.has_variable_scalars() ? Py_True : Py_False, nullptr));
}

// The result of a call that is recorded.
inline Ref record_call(CallObject& call, const Signature& signature, PyObject* const* given, Py_ssize_t count,
                       PyObject* names) {
  const Ref before = owned(call.generation);  // owned, so that no later one has its address
  const Ref object = call_record(call, signature, given, count, names);
  const Fields outcome(object.get(), "what records a call");
  Ref result = outcome.get("result"), recording = outcome.get("recording");
  Entry::State state = Entry::State::not_cacheable;
  if (recording.get() != Py_None) {
    recording_of(recording.get());
    state = Entry::State::recorded;
  } else if (outcome.flag("needs_scalars") && signature.has_variable_scalars()) {
    state = Entry::State::needs_scalars;
  }
  if (has_generation(call) && call.generation == before.get()) {
    Entry& entry = entry_of(call, signature);
    entry.state = state;
    std::swap(entry.recording, recording);
  }
  return result;
}

// Cheap pre-check: a torch-function mode is active, or an argument requires grad.
inline bool is_seen_by_torch(PyObject* const* given, Py_ssize_t count) {
  const TorchState& state = TorchState::get();
  if (!state.quiet.front().first.is(state.quiet.front().second)) return true;
  return state.is_grad_enabled.is(Py_True) && std::any_of(given, given + count, [&](PyObject* object) {
           auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
           return (type == state.tensor || type == state.parameter) && state.requires_grad.is(Py_True, object);
         });
}

// Reads the signature of a call. False: the function is called, which raises if an argument is wrong.
inline bool read(Signature& signature, PyObject* const* given, Py_ssize_t count, PyObject* names,
                 bool variable_scalars) {
  try {
    if (signature.read(given, count, names, variable_scalars)) return true;
  } catch (const PythonError&) {
  }
  PyErr_Clear();
  return false;
}

// The result of a replay; null if the function is to be called.
inline Ref replay(PyObject* object, Signature& signature) {
  const Recording& recording = recording_of(object);
  const CallTensors given = signature.tensors();
  const std::size_t tensors = recording.draws() + static_cast<std::size_t>(given.count);
  recording.expect(static_cast<int>(tensors), signature.has_variable_scalars() ? signature.scalars().length : 0);
  if (!recording.has_constants(given)) return Ref();
  if (recording.is_frozen(given.objects)) return Ref();
  for (const Ref& position : recording.positions()) signature.append(position.get());
  if (recording.has_node()) return recording.differentiate(object, signature.tensors());
  return recording.run(signature.tensors(), signature.scalars());
}

// The result of a call that is replayed or recorded; null if the function is to be called.
inline Ref call_cached(CallObject& call, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  if (!call.takes_gradients && is_seen_by_torch(given, count)) return Ref();
  if (!TorchState::get().is_quiet()) return Ref();  // first: a mode would see what is asked of tensors
  Signature signature;
  if (!read(signature, given, count, names, call.variable_scalars)) return Ref();
  if (!call.takes_gradients && signature.differentiates()) return Ref();
  // A derivative depends on the values of scalars.
  if (call.variable_scalars && signature.differentiates() && !read(signature, given, count, names, false)) return Ref();
  Entry* entry = &entry_of(call, signature);
  if (entry->state == Entry::State::needs_scalars) {
    if (!read(signature, given, count, names, false)) return Ref();
    entry = &entry_of(call, signature);
  }
  switch (entry->state) {
    case Entry::State::is_new: entry->state = Entry::State::called_once; return Ref();
    case Entry::State::called_once: return record_call(call, signature, given, count, names);
    case Entry::State::recorded: {
      const Ref recording = owned(entry->recording.get());  // another thread may clear the entries meanwhile
      return replay(recording.get(), signature);
    }
    default: return Ref();
  }
}

inline PyObject* vectorcall(PyObject* self, PyObject* const* given, std::size_t flags, PyObject* names) {
  CallObject& call = *reinterpret_cast<CallObject*>(self);
  const Ref function = owned(call.function);  // another one may be set meanwhile
  if ((call.takes_gradients || shortcuts_allowed()) && !is_recording_call()) {
    const auto cached = [&] {
      return has_generation(call) ? call_cached(call, given, PyVectorcall_NARGS(flags), names) : Ref();
    };
    Ref result = guarded(cached, Ref());
    if (result || PyErr_Occurred()) return result.release();
  }
  return PyObject_Vectorcall(function.get(), given, flags, names);
}

}  // namespace repdl::python
#pragma GCC visibility pop
