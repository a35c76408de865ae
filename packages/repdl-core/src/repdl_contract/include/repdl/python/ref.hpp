// References of Python, and its errors as exceptions of C++.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
// After it.
#include <structmember.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#pragma GCC visibility push(hidden)
namespace repdl::python {

// An owned reference.
class Ref {
 public:
  explicit Ref(PyObject* object = nullptr) : object_(object) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

// Thrown where Python's error is set.
struct PythonError : std::exception {
  const char* what() const noexcept override { return "an error of Python"; }
};

// Sets Python's error, as PyErr_Format does, and throws.
template <class... Values>
[[noreturn]] void raise(PyObject* type, const char* format, Values... values) {
  PyErr_Format(type, format, values...);
  throw PythonError{};
}

inline Ref checked(PyObject* object) {
  if (object == nullptr) throw PythonError{};
  return Ref(object);
}

// A reference of our own to what belongs to somebody else.
inline Ref owned(PyObject* object) {
  Py_INCREF(object);
  return Ref(object);
}

// An item of a list or tuple, which other threads may change meanwhile. Throws where a list is shorter by then.
inline Ref item_of(PyObject* sequence, Py_ssize_t i) {
#if defined(Py_GIL_DISABLED)
  if (PyList_Check(sequence)) return checked(PyList_GetItemRef(sequence, i));
#endif
  return owned(PySequence_Fast_GET_ITEM(sequence, i));
}

// What a dictionary has of a key. Throws where it has nothing.
inline Ref value_of(PyObject* dictionary, PyObject* key) {
#if defined(Py_GIL_DISABLED)
  PyObject* value = nullptr;
  if (PyDict_GetItemRef(dictionary, key, &value) == 0) PyErr_SetObject(PyExc_KeyError, key);
  return checked(value);
#else
  PyObject* value = PyDict_GetItemWithError(dictionary, key);
  if (value == nullptr && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
  if (value == nullptr) throw PythonError{};
  return owned(value);
#endif
}

// Says of a module that it needs no global lock of Python.
inline bool needs_no_gil(PyObject* module) {
#if defined(Py_GIL_DISABLED)
  return PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED) == 0;
#else
  return module != nullptr;
#endif
}

inline std::int64_t integer(PyObject* object) {
  const long long result = PyLong_AsLongLong(object);
  if (result == -1 && PyErr_Occurred()) throw PythonError{};
  return result;
}

// What `function` returns; `failed`, with Python's error set, where it throws. No exception of C++ passes Python.
template <class Function, class Result>
Result guarded(const Function& function, Result failed) {
  try {
    return function();
  } catch (const PythonError&) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "repdl: a function failed and did not say why");
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "repdl: an exception of C++ that has no text");
  }
  return failed;
}

// A tuple that Python gives, of `length` items if that is known.
class Items {
 public:
  Items(PyObject* object, const char* what, Py_ssize_t length = -1) : tuple_(object) {
    if (!PyTuple_Check(object))
      raise(PyExc_TypeError, "%s: got a %s, expected a tuple", what, Py_TYPE(object)->tp_name);
    if (length >= 0 && size() != length)
      raise(PyExc_ValueError, "%s: got a tuple of %zd items, expected %zd", what, size(), length);
  }

  Py_ssize_t size() const { return PyTuple_GET_SIZE(tuple_); }
  PyObject* operator[](Py_ssize_t i) const { return PyTuple_GET_ITEM(tuple_, i); }
  std::ptrdiff_t number(Py_ssize_t i) const { return static_cast<std::ptrdiff_t>(integer((*this)[i])); }

 private:
  PyObject* tuple_;
};

// The fields of an object of a dataclass, by name.
class Fields {
 public:
  Fields(PyObject* object, const char* what) : object_(object), what_(what) {}

  Ref get(const char* name) const { return checked(PyObject_GetAttrString(object_, name)); }
  std::ptrdiff_t number(const char* name) const { return static_cast<std::ptrdiff_t>(integer(get(name).get())); }
  std::optional<std::ptrdiff_t> optional_number(const char* name) const { return optional_integer(get(name).get()); }
  double real(const char* name) const {
    const double result = PyFloat_AsDouble(get(name).get());
    if (result == -1 && PyErr_Occurred()) throw PythonError{};
    return result;
  }
  bool flag(const char* name) const {
    const Ref value = get(name);
    if (!PyBool_Check(value.get()))
      raise(PyExc_TypeError, "%s: %s is a %s, expected a bool", what_, name, Py_TYPE(value.get())->tp_name);
    return value.get() == Py_True;
  }

  // Calls `function` with each item of a tuple.
  template <class Function>
  void each(const char* name, const Function& function) const {
    const Ref tuple = get(name);
    const Items items(tuple.get(), (std::string(what_) + ": " + name).c_str());
    for (Py_ssize_t i = 0; i < items.size(); ++i) function(items[i]);
  }

  static std::optional<std::ptrdiff_t> optional_integer(PyObject* value) {
    if (value == Py_None) return std::nullopt;
    return static_cast<std::ptrdiff_t>(integer(value));
  }

 private:
  PyObject* object_;
  const char* what_;
};

// Of a type that takes no keywords.
inline void refuse_keywords(const char* what, PyObject* named) {
  if (named != nullptr && PyDict_GET_SIZE(named) > 0) raise(PyExc_TypeError, "%s takes no keyword arguments", what);
}

}  // namespace repdl::python
#pragma GCC visibility pop
