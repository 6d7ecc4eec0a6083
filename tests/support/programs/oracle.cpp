#include "tests/support/programs/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "adjoin/lab/exercise.hpp"

namespace adjoin::testing::programs {

namespace {

uint64_t cut_to(ElementType type, uint64_t bits) {
  const int64_t bytes = size_of(type);
  return bytes == 8 ? bits : bits & ((uint64_t{1} << (8 * bytes)) - 1);
}

uint64_t reduced_integer(uint64_t seed, const Step& step, int size, int64_t index) {
  const auto given = [&](int rank) { return static_cast<int64_t>(given_integer(seed, step, rank, index)); };
  int64_t result = given(0);
  for (int r = 1; r < size; ++r) result = lab::combined(step.reduction, step.type, result, given(r));
  return cut_to(step.type, static_cast<uint64_t>(is_logical(step.reduction) ? result != 0 : result));
}

double reduced_number(uint64_t seed, const Step& step, int size, int64_t index) {
  double result = given_number(seed, step, 0, index);
  for (int r = 1; r < size; ++r) {
    const double other = given_number(seed, step, r, index);
    if (std::isnan(result) || std::isnan(other))
      result = std::nan("");
    else if (step.reduction == Reduction::product)
      result *= other;
    else if (step.reduction == Reduction::min)
      result = std::min(result, other);
    else if (step.reduction == Reduction::max)
      result = std::max(result, other);
    else
      result += other;
  }
  return step.reduction == Reduction::average ? result / size : result;
}

/// How far a result may be from the exact one. All but averages are exact: the numbers are small and whole. A sum is
/// then exact too, and dividing it, or multiplying it by a rounded reciprocal and rounding that to the type, is off by at
/// most (1 + u)^2 - 1 < 2.5 u of it, u being half the distance from 1 to the next number of the type.
double tolerance(const Step& step, double exact) {
  if (step.reduction != Reduction::average) return 0;
  const int bits = step.type == ElementType::float16    ? 11
                   : step.type == ElementType::bfloat16 ? 8
                   : step.type == ElementType::float32  ? 24
                                                        : 53;
  return 2.5 * std::ldexp(std::abs(exact), -bits);
}

std::string wrong_element(const char* what, int64_t index, const std::string& expected, const std::string& found) {
  return std::string(what) + " element " + std::to_string(index) + ": expected " + expected + ", got " + found;
}

std::string text_of(double number) {
  std::ostringstream text;
  text.precision(17);
  text << number;
  return text.str();
}

/// Compares reduced elements, `first` of the whole being the first of `out`.
std::string difference_of_reduced(uint64_t seed, const Step& step, int size, int64_t first, const Buffer& out) {
  for (int64_t i = 0; i < out.count; ++i) {
    const uint64_t found = load(out, i);
    if (!is_float(step.type)) {
      const uint64_t expected = reduced_integer(seed, step, size, first + i);
      if (found != expected) return wrong_element("reduced", i, std::to_string(expected), std::to_string(found));
      continue;
    }
    const double expected = reduced_number(seed, step, size, first + i), number = number_of(step.type, found);
    const bool is_right =
        std::isnan(expected) ? std::isnan(number) : std::abs(number - expected) <= tolerance(step, expected);
    if (!is_right) return wrong_element("reduced", i, text_of(expected), text_of(number));
  }
  return "";
}

/// Writes what `from` has given, elements [first, first + count), to elements [at, at + count).
void put(uint64_t seed, const Step& step, int from, int64_t first, int64_t count, const Buffer& out, int64_t at = 0) {
  for (int64_t i = 0; i < count; ++i) store(out, at + i, given_bits(seed, step, from, first + i));
}

void put_all_blocks(uint64_t seed, const Step& step, int size, const Buffer& out) {
  for (int r = 0; r < size; ++r)
    put(seed, step, r, 0, step.counts[static_cast<size_t>(r)], out, sum_of(step.counts, 0, r));
}

void put_blocks_of_peers(uint64_t seed, const Step& step, int size, int rank, Memory& memory) {
  int64_t at = 0;
  for (int peer = 0; peer < size; ++peer) {
    const int64_t count = std::max<int64_t>(count_between(step, size, peer, rank), 0);
    int64_t first = 0;
    for (int before = 0; before < rank; ++before)
      first += std::max<int64_t>(count_between(step, size, peer, before), 0);
    put(seed, step, peer, first, count, memory.out, at);
    at += count;
  }
}

/// What a step that moves elements leaves in `memory`.
void move(uint64_t seed, const Step& step, int size, int rank, Memory& memory) {
  switch (step.kind) {
    case Kind::broadcast:
      return put(seed, step, step.root, 0, step.counts[0], memory.out);
    case Kind::gather:
      return rank == step.root ? put_all_blocks(seed, step, size, memory.out) : void();
    case Kind::all_gather:
      return put_all_blocks(seed, step, size, memory.out);
    case Kind::scatter:
      return put(seed, step, step.root, sum_of(step.counts, 0, rank), memory.out.count, memory.out);
    case Kind::all_to_all:
    case Kind::exchange:
      return put_blocks_of_peers(seed, step, size, rank, memory);
    case Kind::message:
      return rank == step.to ? put(seed, step, step.from, 0, step.counts[0], memory.out) : void();
    case Kind::ring:
      return put(seed, step, (rank + size - step.shift) % size, 0, step.counts[0], memory.out);
    default:
      return;
  }
}

}  // namespace

std::string difference(uint64_t seed, const Step& step, int size, int rank, Memory& found) {
  Memory expected = memory_for(seed, step, size, rank);
  if (!has_reduction(step.kind)) {
    move(seed, step, size, rank, expected);
  } else if (step.kind != Kind::reduce || rank == step.root) {
    const int64_t first = step.kind == Kind::reduce_scatter ? sum_of(step.counts, 0, rank) : 0;
    if (const std::string text = difference_of_reduced(seed, step, size, first, found.out); !text.empty()) return text;
    for (int64_t i = 0; i < found.out.count; ++i) store(expected.out, i, load(found.out, i));  // judged
  }
  if (!found.first.has_whole_guards() || !found.second.has_whole_guards())
    return "elements beside a buffer were written";
  if (found.first == expected.first && found.second == expected.second) return "";
  for (Block Memory::*block : {&Memory::first, &Memory::second})
    for (int64_t i = 0; i < (found.*block).count(); ++i)
      if (const uint64_t a = load((expected.*block).buffer(), i), b = load((found.*block).buffer(), i); a != b)
        return wrong_element(block == &Memory::first ? "input" : "output", i, std::to_string(a), std::to_string(b));
  return "";
}

}  // namespace adjoin::testing::programs
