#include "adjoin/lab/exercise.hpp"

#include <algorithm>

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::lab {

namespace {

/// Of each reduction, an operand that changes the result little or not at all.
constexpr int64_t kNeutral[kReductions] = {0, 1, 1, 1, 0, 7, 0, 0, 1, 0, 0};

/// The number of elements after which results of reductions repeat.
int64_t period_of(const Exercise& e) {
  return e.numbers == Exercise::Numbers::readable ? 100 : 5;
}

/// With small numbers, at each place two ranks give the numbers that matter, and the others give ones that change the
/// result little or not at all.
int64_t part_at(const Exercise& e, int rank, int64_t i) {
  if (e.numbers == Exercise::Numbers::readable) return 100 * rank + i % 100;
  if (i % e.ranks() == rank) return is_logical(e.reduction) ? i % period_of(e) : 2 + i % period_of(e);
  return (i + 1) % e.ranks() == rank ? 3 : kNeutral[static_cast<size_t>(e.reduction)];
}

double number_at(const Exercise& e, int rank, int64_t i) {
  return has_reduction(e.collective) ? static_cast<double>(part_at(e, rank, i)) : number_at(e.numbers, rank, i);
}

/// Element i of the result of a reduction, for one period.
Values results_of(const Exercise& e, int64_t count) {
  const auto part = [&](int rank, int64_t i) {  // the number as the type stores it
    return e.type == ElementType::boolean ? part_at(e, rank, i) % 2 : part_at(e, rank, i);
  };
  Values results;
  for (int64_t i = 0; i < std::min(count, period_of(e)); ++i) {
    int64_t result = part(0, i);
    for (int rank = 1; rank < e.ranks(); ++rank) result = combined(e.reduction, e.type, result, part(rank, i));
    if (is_logical(e.reduction)) result = result != 0;
    results.push_back(static_cast<double>(result) / (e.reduction == Reduction::average ? e.ranks() : 1));
  }
  return results;
}

/// Elements of one rank's input, or of the result of a reduction, in an output.
struct Piece {
  int from = 0;
  int64_t begin = 0, count = 0;
};
constexpr int kAllRanks = -1;

std::vector<Piece> blocks_of_all(const Exercise& e) {
  std::vector<Piece> pieces;
  for (const int64_t count : e.blocks) pieces.push_back({static_cast<int>(pieces.size()), 0, count});
  return pieces;
}

std::vector<Piece> blocks_sent_to(const Exercise& e, int rank) {
  const algorithm::Blocks blocks(e.blocks);
  std::vector<Piece> pieces;
  for (int from = 0; from < e.ranks(); ++from)  // each rank's blocks begin with a different one
    pieces.push_back({from, blocks.count_around(e.turn * from, rank), e.between(from, rank)});
  return pieces;
}

/// What a rank receives, in the order of its output.
std::vector<Piece> outcome(const Exercise& e, int rank) {
  const CollectiveKind& kind = kind_of(e.collective);
  const algorithm::Blocks blocks(e.blocks);
  const int from = kind.reduces ? kAllRanks : e.root;
  if (kind.gets == Extent::none || (kind.root == CollectiveKind::Root::gets && rank != e.root)) return {};
  if (kind.gets == Extent::whole) return {{from, 0, e.count}};
  if (kind.gets == Extent::own_block) return {{from, blocks.count(0, rank), blocks.count(rank)}};
  return kind.gives == Extent::own_block ? blocks_of_all(e) : blocks_sent_to(e, rank);
}

int64_t elements_given(const Exercise& e, int rank) {
  const Extent gives = kind_of(e.collective).gives;
  if (gives == Extent::whole) return e.count;
  if (gives == Extent::own_block) return e.blocks[static_cast<size_t>(rank)];
  const bool has_all = gives == Extent::all_blocks && (!has_root(e.collective) || rank == e.root);
  return has_all ? algorithm::total_of(e.blocks) : 0;
}

Elements given_by(const Exercise& e, int rank) {
  Values values;
  for (int64_t i = 0; i < elements_given(e, rank); ++i) values.push_back(number_at(e, rank, i));
  return {e.type, values};
}

}  // namespace

int64_t combined(Reduction reduction, ElementType type, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (reduction == Reduction::sum && type == ElementType::boolean ? Reduction::bit_or : reduction) {
    case Reduction::sum:
    case Reduction::average:
      return static_cast<int64_t>(x + y);
    case Reduction::product:
      return static_cast<int64_t>(x * y);
    case Reduction::min:
      return std::min(a, b);
    case Reduction::max:
      return std::max(a, b);
    case Reduction::bit_and:
      return a & b;
    case Reduction::bit_or:
      return a | b;
    case Reduction::bit_xor:
      return a ^ b;
    case Reduction::logical_and:
      return a != 0 && b != 0;
    case Reduction::logical_or:
      return a != 0 || b != 0;
    case Reduction::logical_xor:
      return (a != 0) != (b != 0);
  }
  return 0;
}

Exercise exercise_of(Collective collective, int ranks, int root, int64_t bytes, int64_t chunk) {
  const ElementType type = bytes % 4 == 0 && chunk % 4 == 0 ? ElementType::int32 : ElementType::uint8;
  const int64_t elements = bytes / size_of(type);
  return {.collective = collective,
          .root = root,
          .count = elements,
          .blocks = algorithm::balanced_counts(elements, ranks),
          .chunk = chunk / size_of(type),
          .type = type};
}

algorithm::Request request_of(const Exercise& exercise) {
  auto request = algorithm::request_of(exercise.collective, exercise.root, exercise.count, exercise.blocks);
  request.chunk = exercise.chunk;
  return request;
}

double number_at(Exercise::Numbers numbers, int rank, int64_t i) {
  return static_cast<double>(numbers == Exercise::Numbers::readable ? 100 * rank + i % 100
                                                                    : (37 * int64_t{rank} + 7 * i) % 101);
}

Elements input_of(const Exercise& exercise, int rank) {
  return kind_of(exercise.collective).is_in_place ? Elements(exercise.type, {}) : given_by(exercise, rank);
}

Elements output_before(const Exercise& exercise, int rank) {
  const bool gives = exercise.collective == Collective::all_reduce ||
                     (exercise.collective == Collective::broadcast && rank == exercise.root);
  if (gives) return given_by(exercise, rank);
  return {exercise.type, Values(static_cast<size_t>(output_after(exercise, rank).count()), -1)};
}

Elements output_after(const Exercise& exercise, int rank) {
  const auto pieces = outcome(exercise, rank);
  Values results, values;
  for (const auto& [from, begin, count] : pieces) {
    if (from == kAllRanks) results = results_of(exercise, begin + count);
    for (int64_t i = begin; i < begin + count; ++i)
      values.push_back(from == kAllRanks ? results[static_cast<size_t>(i) % results.size()]
                                         : number_at(exercise, from, i));
  }
  return {exercise.type, values};
}

}  // namespace adjoin::lab
