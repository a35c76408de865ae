// What the programs here share: checks that end the program, seeds, and a main() that runs one case.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/launch.hpp"
#include "repdl/backend.hpp"

namespace check {

inline const repdl::cuda::Stream stream{0, 0};

// Memory that kernels ask for, each piece on its own so that sanitizers see its end.
struct Memory {
  std::vector<std::vector<unsigned char>> pieces;

  static void* allocate(void* self, std::size_t bytes) {
    return static_cast<Memory*>(self)->pieces.emplace_back(bytes).data();
  }
};

// Runs the kernel of an op with its arguments and outputs.
inline void call(const char* op, const std::vector<repdl::Argument>& arguments) {
  for (const repdl::Kernel& kernel : repdl::kernels()) {
    if (std::strcmp(kernel.op, op) != 0 || kernel.dtype != repdl::DType::float32) continue;
    Memory memory;
    repdl::ExecContext exec{op};
    exec.allocate = Memory::allocate;
    exec.owner = &memory;
    return kernel.call(arguments.data(), exec);
  }
  throw std::runtime_error(std::string("no kernel of ") + op);
}

// A tensor over the elements of a vector.
struct View {
  std::vector<std::int64_t> size, stride;
  repdl::Tensor tensor;

  View(std::vector<float>& x, std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides)
      : size(std::move(sizes)), stride(std::move(strides)),
        tensor{x.data(), size.data(), stride.data(), static_cast<int>(size.size()), repdl::DType::float32, true} {}
};

inline void expect(bool right, const char* what) {
  if (right) return;
  std::printf("wrong: %s\n", what);
  std::exit(1);
}

// f() raises an error with `text` in it.
template <class F>
void expect_error(const char* text, const F& f) {
  try {
    f();
  } catch (const std::runtime_error& error) {
    if (std::strstr(error.what(), text)) return;
    std::printf("expected an error with \"%s\" in it, not: %s\n", text, error.what());
    std::exit(1);
  }
  std::printf("no error, expected one with \"%s\" in it\n", text);
  std::exit(1);
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

inline void set_seed(int seed) { setenv("REPDL_EMULATION_SEED", std::to_string(seed).c_str(), 1); }

struct Case {
  const char* name;
  void (*run)();
};

// Runs the case that is the first argument.
template <class Cases>
int run_case(const Cases& cases, int argc, char** argv) {
  for (const Case& c : cases) {
    if (argc == 2 && std::strcmp(c.name, argv[1]) == 0) {
      try {
        c.run();
      } catch (const std::runtime_error& error) {
        std::printf("error: %s\n", error.what());
        return 1;
      }
      return 0;
    }
  }
  std::printf("usage: %s CASE\n", argv[0]);
  return 2;
}

}  // namespace check
