// A sequence of plain values that lies on the stack as long as it is short.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>

#pragma GCC visibility push(hidden)
namespace repdl::python {

template <class T, std::size_t few>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(std::size_t count) { resize(count); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() { return first_; }
  const T* data() const { return first_; }
  T& operator[](std::size_t i) { return first_[i]; }
  const T& operator[](std::size_t i) const { return first_[i]; }
  std::size_t size() const { return size_; }

  // Those that are new have no value.
  void resize(std::size_t count) {
    if (count > capacity_) grow(std::max(count, 2 * capacity_));
    size_ = count;
  }
  void push_back(T value) {
    resize(size_ + 1);
    first_[size_ - 1] = value;
  }

 private:
  void grow(std::size_t capacity) {
    std::unique_ptr<T[]> all(new T[capacity]);
    std::copy_n(first_, size_, all.get());
    many_ = std::move(all);
    first_ = many_.get();
    capacity_ = capacity;
  }

  T few_[few];
  std::unique_ptr<T[]> many_;
  T* first_ = few_;
  std::size_t size_ = 0, capacity_ = few;
};

}  // namespace repdl::python
#pragma GCC visibility pop
