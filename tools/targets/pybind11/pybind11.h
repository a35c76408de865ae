// Stands in for pybind11 where there is no Python: `def` keeps the kernels of repdl-cpu under their
// names, and replay.cpp calls them with recorded arguments.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace pybind11 {

struct gil_scoped_release {};
template <class... Guards>
struct call_guard {};

// Little-endian, whatever the target is.
class Reader {
 public:
  Reader(const unsigned char* data, std::size_t size) : at_(data), end_(data + size) {}
  bool empty() const { return at_ == end_; }
  const unsigned char* bytes(std::size_t n) {
    if (n > static_cast<std::size_t>(end_ - at_)) throw std::runtime_error("replay: the record ends early");
    const unsigned char* result = at_;
    at_ += n;
    return result;
  }
  std::uint64_t word() {
    const unsigned char* p = bytes(8);
    std::uint64_t value = 0;
    for (int i = 7; i >= 0; --i) value = value << 8 | p[i];
    return value;
  }
  std::string text() {
    const std::size_t n = word();
    return {reinterpret_cast<const char*>(bytes(n)), n};
  }
  void expect(char kind) {
    const char found = static_cast<char>(*bytes(1));
    if (found != kind) throw std::runtime_error(std::string("replay: found a ") + found + ", expected " + kind);
  }
  char kind() const { return at_ < end_ ? static_cast<char>(*at_) : '\0'; }

  std::vector<unsigned char*> buffers;  // that addresses point into

 private:
  const unsigned char *at_, *end_;
};

// An argument as replay.py wrote it: its kind, then its value.
template <class T>
struct Argument {
  static T read(Reader& record) {
    static_assert(std::is_arithmetic_v<T>);
    if constexpr (std::is_same_v<T, std::uintptr_t>) {
      if (record.kind() == 'p') {
        record.expect('p');
        const std::uint64_t buffer = record.word();
        return reinterpret_cast<T>(record.buffers.at(buffer)) + record.word();
      }
    }
    if (std::is_floating_point_v<T> && record.kind() == 'd') {
      record.expect('d');
      const std::uint64_t bits = record.word();
      double value;
      std::memcpy(&value, &bits, sizeof value);
      return static_cast<T>(value);
    }
    record.expect('i');
    return static_cast<T>(static_cast<std::int64_t>(record.word()));
  }
};

template <class T>
struct Argument<std::vector<T>> {
  static std::vector<T> read(Reader& record) {
    record.expect('l');
    std::vector<T> values;
    for (std::uint64_t n = record.word(); n > 0; --n) values.push_back(Argument<T>::read(record));
    return values;
  }
};

using Kernels = std::map<std::string, std::function<void(Reader&)>>;

class module_ {
 public:
  explicit module_(Kernels& kernels, std::string prefix = {}) : kernels_(&kernels), prefix_(std::move(prefix)) {}
  module_ def_submodule(const char* name) const { return module_(*kernels_, prefix_ + name + "."); }
  template <class F, class... Extra>
  module_& def(const char* name, F f, const Extra&...) {
    (*kernels_)[prefix_ + name] = replayed(std::function(f));
    return *this;
  }

 private:
  template <class R, class... A>
  static std::function<void(Reader&)> replayed(std::function<R(A...)> f) {
    return [f](Reader& record) {
      std::tuple<std::decay_t<A>...> arguments{Argument<std::decay_t<A>>::read(record)...};
      if (!record.empty()) throw std::runtime_error("replay: more arguments than the kernel has");
      std::apply(f, arguments);
    };
  }

  Kernels* kernels_;
  std::string prefix_;
};

}  // namespace pybind11

#define PYBIND11_MODULE(name, module) void bind_kernels(pybind11::module_& module)
