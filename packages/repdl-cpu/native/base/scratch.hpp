// Scratch memory: an object that belongs to whoever uses it.
//
//   const Scratch<float> packed(floats);   packed.data(): not initialised, aligned to a page
//
// A thread keeps what was given back for its next user: fresh pages cost more than packing into them. It
// keeps no more than scratch_kept bytes in all; what is larger goes back to the system at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "repdl/huge_pages.hpp"

namespace repdl::cpu {

constexpr std::size_t scratch_kept = std::size_t{16} << 20;  // packed operands and partial sums of a product

namespace memory {

constexpr std::size_t page = 4096;

struct Block {
  void* data = nullptr;
  std::size_t bytes = 0;
};

inline Block allocate(std::size_t bytes) {
  bytes = (bytes + page - 1) / page * page;
  void* const data = ::operator new(bytes, std::align_val_t{page});
  prefer_huge_pages(data, bytes);
  return {data, bytes};
}

inline void release(Block block) { ::operator delete(block.data, std::align_val_t{page}); }

// Blocks of a thread that nobody uses.
class SpareBlocks {
 public:
  SpareBlocks() = default;
  SpareBlocks(const SpareBlocks&) = delete;
  SpareBlocks& operator=(const SpareBlocks&) = delete;
  ~SpareBlocks() { keep(0, 0); }

  // The smallest that is large enough.
  Block take(std::size_t bytes) {
    int fits = -1;
    for (int i = 0; i < count_; ++i)
      if (blocks_[i].bytes >= bytes && (fits < 0 || blocks_[i].bytes < blocks_[fits].bytes)) fits = i;
    return fits < 0 ? allocate(bytes) : remove(fits);
  }

  void give(Block block) {
    if (block.bytes > scratch_kept) return release(block);
    if (total_ + block.bytes > scratch_kept || count_ == most) keep(most - 1, scratch_kept - block.bytes);
    blocks_[count_++] = block;
    total_ += block.bytes;
  }

 private:
  void keep(int count, std::size_t bytes) {
    while (count_ > count || total_ > bytes) release(remove(0));
  }

  Block remove(int i) {
    const Block block = blocks_[i];
    blocks_[i] = blocks_[--count_];
    total_ -= block.bytes;
    return block;
  }

  static constexpr int most = 8;
  Block blocks_[most];
  int count_ = 0;
  std::size_t total_ = 0;
};

inline SpareBlocks& spare_blocks() {
  thread_local SpareBlocks blocks;
  return blocks;
}

}  // namespace memory

template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t count) {
    if (count > 0) {
      home_ = &memory::spare_blocks();
      block_ = home_->take(static_cast<std::size_t>(count) * sizeof(T));
    }
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (block_.data) home_->give(block_);
  }

  T* data() const { return static_cast<T*>(block_.data); }

 private:
  memory::SpareBlocks* home_ = nullptr;  // of the thread that made it, and that ends it
  memory::Block block_;
};

}  // namespace repdl::cpu
