#include "adjoin/movement/step_context.hpp"

#include <string>

#include "adjoin/base/error.hpp"

namespace adjoin {

std::vector<TokenPlace> StepContext::places(int64_t count) const {
  std::vector<TokenPlace> places;
  if (rows) {
    places = rows->places(worker);
    if (part) places = {places.begin() + part->begin, places.begin() + part->end};
  } else {
    for (int64_t sample = 0; sample < count; ++sample) places.push_back({sample, 0});
  }
  require(std::ssize(places) == count, [&] {
    return "StepContext: expected the " + std::to_string(places.size()) + " rows that it describes, got " +
           std::to_string(count);
  });
  for (TokenPlace& place : places) place.sample += first_sample;
  return places;
}

int64_t StepContext::row_count() const {
  require(rows != nullptr, "StepContext: expected one that says which sample and token each row is, got none");
  return rows->size(worker);
}

StepContext StepContext::of_part(int ranks, int rank) const {
  const Split split = Split::balanced(row_count(), ranks, 0);
  StepContext context = *this;
  context.part = Range{split.offset(rank), split.offset(rank) + split.size(rank)};
  return context;
}

}  // namespace adjoin
