#include "tests/support/programs/memory.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/programs/random.hpp"

namespace adjoin::testing::programs {

namespace {

constexpr std::byte kUntouched{0xa5};

void give(uint64_t seed, const Step& step, int rank, const Buffer& to) {
  for (int64_t i = 0; i < to.count; ++i) store(to, i, given_bits(seed, step, rank, i));
}

/// The blocks of an all_to_all or exchange: what rank `me` sends, or receives, of each peer.
std::vector<int64_t> counts_of_peers(const Step& step, int size, int me, bool sends) {
  std::vector<int64_t> counts;
  for (int peer = 0; peer < size; ++peer)
    counts.push_back(sends ? count_between(step, size, me, peer) : count_between(step, size, peer, me));
  return counts;
}

void lay_out_exchange(uint64_t seed, const Step& step, int size, int rank, Memory& memory) {
  int64_t sent = 0, received = 0;
  for (int peer = 0; peer < size; ++peer) {
    const int64_t to = memory.sends[static_cast<size_t>(peer)], from = memory.receives[static_cast<size_t>(peer)];
    if (to >= 0) memory.messages.push_back({Message::Kind::send, peer, memory.in.slice(sent, to), step.tag});
    if (from >= 0)
      memory.messages.push_back({Message::Kind::receive, peer, memory.out.slice(received, from), step.tag});
    sent += std::max<int64_t>(to, 0);
    received += std::max<int64_t>(from, 0);
  }
  if (memory.messages.empty()) return;
  const uint64_t first = mix(mix(seed, static_cast<uint64_t>(step.id)), static_cast<uint64_t>(rank));
  std::rotate(memory.messages.begin(),
              memory.messages.begin() + static_cast<std::ptrdiff_t>(first % memory.messages.size()),
              memory.messages.end());
}

}  // namespace

Block::Block(ElementType type, int64_t count)
    : bytes_(static_cast<size_t>(2 * kGuard + count * size_of(type)), kUntouched), type_(type), count_(count) {}

Buffer Block::buffer() {
  return {bytes_.empty() ? nullptr : bytes_.data() + kGuard, count_, type_};
}

bool Block::has_whole_guards() const {
  const auto is_untouched = [](std::byte b) { return b == kUntouched; };
  return bytes_.empty() || (std::all_of(bytes_.begin(), bytes_.begin() + kGuard, is_untouched) &&
                            std::all_of(bytes_.end() - kGuard, bytes_.end(), is_untouched));
}

uint64_t load(const Buffer& buffer, int64_t index) {
  uint64_t bits = 0;
  const auto size = static_cast<size_t>(size_of(buffer.type));
  std::memcpy(&bits, static_cast<const std::byte*>(buffer.data) + static_cast<size_t>(index) * size, size);
  return bits;
}

void store(const Buffer& buffer, int64_t index, uint64_t bits) {
  const auto size = static_cast<size_t>(size_of(buffer.type));
  std::memcpy(static_cast<std::byte*>(buffer.data) + static_cast<size_t>(index) * size, &bits, size);
}

bool is_float(ElementType type) {
  return type == ElementType::float16 || type == ElementType::bfloat16 || type == ElementType::float32 ||
         type == ElementType::float64;
}

int64_t sum_of(const std::vector<int64_t>& counts, int first, int last) {
  int64_t sum = 0;
  for (int r = first; r < last; ++r) sum += std::max<int64_t>(counts[static_cast<size_t>(r)], 0);
  return sum;
}

uint64_t bits_of(ElementType type, double number) {
  if (type == ElementType::float64) return std::bit_cast<uint64_t>(number);
  if (type == ElementType::float32) return std::bit_cast<uint32_t>(static_cast<float>(number));
  if (type == ElementType::bfloat16) return std::bit_cast<uint32_t>(static_cast<float>(number)) >> 16;
  const uint64_t sign = std::signbit(number) ? 0x8000u : 0;
  if (std::isnan(number)) return 0x7e00u;
  if (number == 0) return sign;
  int exponent;  // |number| = fraction 2^exponent, fraction in [1/2, 1)
  const double fraction = std::frexp(std::abs(number), &exponent);
  return sign | static_cast<uint64_t>(exponent + 14) << 10 | static_cast<uint64_t>((2 * fraction - 1) * 1024);
}

double number_of(ElementType type, uint64_t bits) {
  if (type == ElementType::float64) return std::bit_cast<double>(bits);
  if (type == ElementType::float32) return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  if (type == ElementType::bfloat16)
    return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
  const int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
  double number = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31)
    number = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return (bits & 0x8000u) != 0 ? -number : number;
}

uint64_t given_bits(uint64_t seed, const Step& step, int rank, int64_t index) {
  if (has_reduction(step.kind))
    return is_float(step.type) ? bits_of(step.type, given_number(seed, step, rank, index))
                               : given_integer(seed, step, rank, index);
  const uint64_t bits =
      mix(mix(seed, static_cast<uint64_t>(step.id)), mix(static_cast<uint64_t>(rank), static_cast<uint64_t>(index)));
  return step.type == ElementType::boolean ? bits & 1 : bits;
}

uint64_t given_integer(uint64_t seed, const Step& step, int rank, int64_t index) {
  const uint64_t bits =
      mix(mix(seed, static_cast<uint64_t>(step.id)), mix(static_cast<uint64_t>(rank), static_cast<uint64_t>(index)));
  if (bits >> 62 == 0) return 0;  // which logical reductions tell from the rest
  if (step.type == ElementType::boolean) return bits & 1;
  if (step.type == ElementType::uint8) return bits & 0xff;
  return step.type == ElementType::int32 ? static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(bits)))
                                         : bits;
}

double given_number(uint64_t seed, const Step& step, int rank, int64_t index) {
  const uint64_t bits =
      mix(mix(seed, static_cast<uint64_t>(step.id)), mix(static_cast<uint64_t>(rank), static_cast<uint64_t>(index)));
  if (bits >> 56 == 0) return std::numeric_limits<double>::quiet_NaN();
  constexpr double factors[] = {-2, -1, 1, 2};
  if (step.reduction == Reduction::product) return factors[bits % 4];
  const int most = step.reduction == Reduction::sum || step.reduction == Reduction::average ? 12 : 100;
  return static_cast<double>(bits % static_cast<uint64_t>(2 * most + 1)) - most;
}

Memory memory_for(uint64_t seed, const Step& step, int size, int rank) {
  Memory memory;
  int64_t in = 0, out = 0, own_block = -1;  // elements; and where the own block begins in the other buffer
  switch (step.kind) {
    case Kind::barrier:
      break;
    case Kind::gather:
    case Kind::all_gather:
    case Kind::scatter:
    case Kind::reduce_scatter:
      in = step.counts[static_cast<size_t>(rank)];
      out = sum_of(step.counts, 0, size);
      own_block = sum_of(step.counts, 0, rank);
      if (step.kind == Kind::scatter || step.kind == Kind::reduce_scatter) std::swap(in, out);
      break;
    case Kind::all_to_all:
    case Kind::exchange:
      memory.sends = counts_of_peers(step, size, rank, true);
      memory.receives = counts_of_peers(step, size, rank, false);
      in = sum_of(memory.sends, 0, size);
      out = sum_of(memory.receives, 0, size);
      break;
    default:
      in = out = step.counts[0];
  }
  memory.first = Block(step.type, in);
  memory.second = Block(step.type, out);
  memory.in = memory.first.buffer();
  memory.out = memory.second.buffer();
  const bool is_in_place = step.is_in_place || step.kind == Kind::broadcast || step.kind == Kind::all_reduce;
  if (is_in_place && step.kind == Kind::all_gather)
    memory.in = memory.out.slice(own_block, in);
  else if (is_in_place && step.kind == Kind::reduce_scatter)
    memory.out = memory.in.slice(own_block, out);
  else if (step.kind == Kind::broadcast || step.kind == Kind::all_reduce || (is_in_place && step.kind == Kind::reduce))
    memory.out = memory.in;
  if (step.overlaps)
    (in < out ? memory.in : memory.out) = (in < out ? memory.out : memory.in).slice(0, std::min(in, out));
  give(seed, step, rank, memory.in);
  if (step.kind == Kind::exchange) lay_out_exchange(seed, step, size, rank, memory);
  return memory;
}

}  // namespace adjoin::testing::programs
