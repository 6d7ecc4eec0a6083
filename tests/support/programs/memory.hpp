#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "adjoin/base/buffer.hpp"
#include "adjoin/base/shared_memory.hpp"
#include "adjoin/comm/contract/backend.hpp"
#include "tests/support/programs/program.hpp"

namespace adjoin::testing::programs {

/// Memory of which processes of a host share some, and some not.
template <class T>
struct SomeHostMemory {
  using value_type = T;
  SomeHostMemory() = default;
  template <class Other>
  explicit SomeHostMemory(const SomeHostMemory<Other>&) {}

  T* allocate(size_t n) {
    SharedMemory* memory = n % 8 < 4 ? SharedMemory::current() : nullptr;
    return static_cast<T*>(memory ? memory->allocate(n * sizeof(T)) : ::operator new(n * sizeof(T)));
  }
  void deallocate(T* block, size_t) {
    SharedMemory* memory = SharedMemory::current();
    memory && memory->holds(block) ? memory->free(block) : ::operator delete(block);
  }
  bool operator==(const SomeHostMemory&) const = default;
};

/// Elements between two guards, which nobody may write.
class Block {
 public:
  Block() = default;
  Block(ElementType type, int64_t count);

  Buffer buffer();
  int64_t count() const { return count_; }
  bool has_whole_guards() const;
  bool operator==(const Block&) const = default;

 private:
  static constexpr int64_t kGuard = 64;  // bytes
  std::vector<std::byte, SomeHostMemory<std::byte>> bytes_;
  ElementType type_ = ElementType::int32;
  int64_t count_ = 0;
};

/// One rank's memory for one call.
struct Memory {
  Block first, second;
  Buffer in, out;                             // in the blocks; both in the first where the call is in place
  std::vector<int64_t> sends, receives = {};  // the counts to and from each rank
  std::vector<Message> messages = {};         // of an exchange
};

/// What `rank` of a group of `size` gives to a step.
Memory memory_for(uint64_t seed, const Step& step, int size, int rank);

/// Element `index` of what `rank` gives to a step: the bits that a move keeps.
uint64_t given_bits(uint64_t seed, const Step& step, int rank, int64_t index);
/// The same, of a step that reduces integers: any of the type.
uint64_t given_integer(uint64_t seed, const Step& step, int rank, int64_t index);
/// The same, of floats: whole numbers so small that sums and products of nine are exact in each type; now and then NaN.
double given_number(uint64_t seed, const Step& step, int rank, int64_t index);

/// The bits of a number that the type has, and back.
uint64_t bits_of(ElementType type, double number);
double number_of(ElementType type, uint64_t bits);

uint64_t load(const Buffer& buffer, int64_t index);
void store(const Buffer& buffer, int64_t index, uint64_t bits);

bool is_float(ElementType type);
int64_t sum_of(const std::vector<int64_t>& counts, int first, int last);

}  // namespace adjoin::testing::programs
