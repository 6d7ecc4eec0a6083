#include "adjoin/lab/exercise.hpp"

#include <numeric>

namespace adjoin::lab {

namespace {

using algorithm::Request;
using Values = std::vector<int64_t>;

int64_t given(int rank, int64_t i) {
  return 100 * rank + i % 100;
}

Values given_to(int rank, int64_t begin, int64_t count) {
  Values values;
  for (int64_t i = 0; i < count; ++i) values.push_back(given(rank, begin + i));
  return values;
}

/// Elements [begin, begin + count) of the sum of all ranks' inputs.
Values sums(int ranks, int64_t begin, int64_t count) {
  Values values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(given(0, begin + i) * ranks + 100 * (int64_t{ranks} * (ranks - 1) / 2));
  return values;
}

/// What one rank sends to another.
int64_t between(const Request& request, int from, int to) {
  return request.counts[static_cast<size_t>(from) * static_cast<size_t>(request.size) + static_cast<size_t>(to)];
}

/// The elements of the blocks, of one rank's row in an all_to_all, before block `end`.
int64_t elements_before(const Request& request, int row, int end) {
  const auto begin = request.counts.begin() + static_cast<std::ptrdiff_t>(row) * request.size;
  return std::accumulate(begin, begin + end, int64_t{0});
}

Values all_given(const Request& request) {
  Values values;
  for (int r = 0; r < request.size; ++r)
    for (const int64_t v : given_to(r, 0, request.counts[static_cast<size_t>(r)])) values.push_back(v);
  return values;
}

Values sent_to(const Request& request, int rank) {
  Values values;
  for (int from = 0; from < request.size; ++from)
    for (const int64_t v : given_to(from, elements_before(request, from, rank), between(request, from, rank)))
      values.push_back(v);
  return values;
}

}  // namespace

Exercise exercise_of(Collective collective, int ranks, int root, int64_t bytes, int64_t chunk) {
  const bool has_words = bytes % 4 == 0 && chunk % 4 == 0;
  Exercise exercise;
  exercise.type = has_words ? ElementType::int32 : ElementType::uint8;
  const int64_t elements = bytes / size_of(exercise.type);
  exercise.request = algorithm::request_of(collective, root, elements, algorithm::balanced_counts(elements, ranks));
  exercise.request.chunk = chunk / size_of(exercise.type);
  return exercise;
}

std::vector<int64_t> input_of(const Request& request, int rank) {
  switch (request.collective) {
    case Collective::barrier:
    case Collective::broadcast:
    case Collective::all_reduce:
      return {};
    case Collective::reduce:
      return given_to(rank, 0, request.count);
    case Collective::gather:
    case Collective::all_gather:
      return given_to(rank, 0, request.counts[static_cast<size_t>(rank)]);
    case Collective::scatter:
      return rank == request.root ? given_to(rank, 0, elements_before(request, 0, request.size)) : Values();
    case Collective::reduce_scatter:
      return given_to(rank, 0, elements_before(request, 0, request.size));
    case Collective::all_to_all:
      return given_to(rank, 0, elements_before(request, rank, request.size));
  }
  return {};
}

std::vector<int64_t> output_before(const Request& request, int rank) {
  const bool has_own_values = request.collective == Collective::all_reduce ||
                              (request.collective == Collective::broadcast && rank == request.root);
  if (has_own_values) return given_to(rank, 0, request.count);
  return Values(output_after(request, rank).size(), -1);
}

std::vector<int64_t> output_after(const Request& request, int rank) {
  switch (request.collective) {
    case Collective::barrier:
      return {};
    case Collective::broadcast:
      return given_to(request.root, 0, request.count);
    case Collective::reduce:
      return rank == request.root ? sums(request.size, 0, request.count) : Values();
    case Collective::all_reduce:
      return sums(request.size, 0, request.count);
    case Collective::gather:
      return rank == request.root ? all_given(request) : Values();
    case Collective::all_gather:
      return all_given(request);
    case Collective::scatter:
      return given_to(request.root, elements_before(request, 0, rank), request.counts[static_cast<size_t>(rank)]);
    case Collective::reduce_scatter:
      return sums(request.size, elements_before(request, 0, rank), request.counts[static_cast<size_t>(rank)]);
    case Collective::all_to_all:
      return sent_to(request, rank);
  }
  return {};
}

}  // namespace adjoin::lab
