#include "adjoin/movement/step_context.hpp"

#include "adjoin/base/error.hpp"

namespace adjoin {

std::vector<TokenPlace> StepContext::places(int64_t count) const {
  std::vector<TokenPlace> places;
  if (rows) {
    places = rows->places(worker);
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

}  // namespace adjoin
