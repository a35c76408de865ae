// A function whose calls are recorded once a signature and repeated without Python.
//
// A call runs the recorded kernels if torch has no more to do with it than compute it, and a call of this signature was
// recorded. All others are calls of the function, which raises all errors.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "repdl/python/mutex.hpp"
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
  Mutex mutex;        // of the function, the generation and the entries
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

// All entries, of which there are none then. Whoever takes them drops them after the lock: that may run other threads.
inline std::unique_ptr<Entries> take_entries(CallObject& call) {
  auto none = std::make_unique<Entries>();
  call.words = 0;
  return std::unique_ptr<Entries>(std::exchange(call.entries, none.release()));
}

inline void clear(CallObject& call) {
  Entries released;
  const Locked locked(call.mutex);
  call.words = 0;
  released.swap(*call.entries);
}

// The entry of a signature, made if there is none. The call is locked; `released` is dropped after that.
inline Entry& entry_of(CallObject& call, const Signature& signature, std::unique_ptr<Entries>& released) {
  // Of a program whose sizes never repeat; all go, as none is known to be needed.
  constexpr std::size_t most = 4096, most_words = std::size_t{1} << 22;
  const std::uint64_t hash = signature.hash();
  auto [entry, last] = call.entries->equal_range(hash);
  for (; entry != last; ++entry)
    if (std::equal(signature.begin(), signature.end(), entry->second.signature.begin(), entry->second.signature.end()))
      return entry->second;
  if (call.entries->size() >= most || call.words >= most_words) released = take_entries(call);
  call.words += static_cast<std::size_t>(signature.end() - signature.begin());
  return call.entries->emplace(hash, Entry{{signature.begin(), signature.end()}, Entry::State::is_new, Ref()})->second;
}

// What is known of a signature, and its recording if there is one. Of a new one a call is known from now on.
inline std::pair<Entry::State, Ref> look_up(CallObject& call, const Signature& signature) {
  std::unique_ptr<Entries> released;
  const Locked locked(call.mutex);
  Entry& entry = entry_of(call, signature, released);
  const Entry::State state = entry.state;
  if (state == Entry::State::is_new) entry.state = Entry::State::called_once;
  return {state, state == Entry::State::recorded ? owned(entry.recording.get()) : Ref()};
}

// Clears the entries of another generation. False while there is none: no recording holds then.
inline bool has_generation(CallObject& call) {
  if (PyList_GET_SIZE(call.cell) == 0)
    raise(PyExc_RuntimeError, "Call: its list of a generation is empty, expected one item");
  Ref now = item_of(call.cell, 0);
  if (now.get() == Py_None) return false;
  std::unique_ptr<Entries> released;
  const Locked locked(call.mutex);
  if (now.get() != call.generation) {
    released = take_entries(call);
    now = Ref(std::exchange(call.generation, now.release()));
  }
  return true;
}

// Whether shortcuts are taken now.
inline std::atomic<bool>& shortcuts_allowed() {
  static std::atomic<bool> allowed{false};
  return allowed;
}

// The function of a call, which may be set meanwhile.
inline Ref function_of(CallObject& call) {
  const Locked locked(call.mutex);
  return owned(call.function);
}

// Calls record(function, arguments, named, differentiates, variable_scalars), which returns an `Outcome`.
inline Ref call_record(CallObject& call, const Signature& signature, PyObject* const* given, Py_ssize_t count,
                       PyObject* names) {
  const Ref arguments = checked(PyTuple_New(count)), named = checked(PyDict_New());
  for (Py_ssize_t i = 0; i < count; ++i) {
    Py_INCREF(given[i]);
    PyTuple_SET_ITEM(arguments.get(), i, given[i]);
  }
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i)
    if (PyDict_SetItem(named.get(), PyTuple_GET_ITEM(names, i), given[count + i]) != 0) throw PythonError{};
  const Ref function = function_of(call);
  const Recorder recorder;
  return checked(PyObject_CallFunctionObjArgs(call.record, function.get(), arguments.get(), named.get(),
                                              signature.differentiates() ? Py_True : Py_False,
                                              signature.has_variable_scalars() ? Py_True : Py_False, nullptr));
}

// Keeps what was recorded of a signature in a generation, if that is the current one.
inline void store(CallObject& call, const Signature& signature, PyObject* generation, Entry::State state,
                  Ref& recording) {
  if (!has_generation(call)) return;
  std::unique_ptr<Entries> released;
  const Locked locked(call.mutex);
  if (call.generation != generation) return;
  Entry& entry = entry_of(call, signature, released);
  entry.state = state;
  std::swap(entry.recording, recording);
}

// The result of a call that is recorded.
inline Ref record_call(CallObject& call, const Signature& signature, PyObject* const* given, Py_ssize_t count,
                       PyObject* names) {
  const auto generation = [&] {
    const Locked locked(call.mutex);
    return owned(call.generation);
  };
  const Ref before = generation();  // owned, so that no later one has its address
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
  store(call, signature, before.get(), state, recording);
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
  auto [state, recording] = look_up(call, signature);
  if (state == Entry::State::needs_scalars) {
    if (!read(signature, given, count, names, false)) return Ref();
    std::tie(state, recording) = look_up(call, signature);
  }
  if (state == Entry::State::recorded) return replay(recording.get(), signature);
  return state == Entry::State::called_once ? record_call(call, signature, given, count, names) : Ref();
}

inline PyObject* vectorcall(PyObject* self, PyObject* const* given, std::size_t flags, PyObject* names) {
  CallObject& call = *reinterpret_cast<CallObject*>(self);
  const Ref function = function_of(call);
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
