#include "adjoin/train/plan.hpp"

#include "adjoin/base/error.hpp"

namespace adjoin::train {

GridShape Plan::grid() const {
  const auto axis = [](const char* name, int64_t size) { return GridShape::Axis{name, static_cast<int>(size)}; };
  return GridShape({axis("dp", dp), axis("pp", pp), axis("cp", cp), axis("tp", tp)});
}

std::string Plan::to_string() const {
  std::string text = "dp " + std::to_string(dp);
  if (pp > 1) text += ", pp " + std::to_string(pp);
  if (cp > 1) text += ", cp " + std::to_string(cp);
  return text + ", tp " + std::to_string(tp);
}

std::string Plan::needs() const {
  return "--dp " + std::to_string(dp) + " times --tp " + std::to_string(tp) + " needs " + std::to_string(ranks()) +
         " ranks";
}

Plan plan_of(const Configuration& c) {
  return {.dp = c.dp, .pp = c.pp, .cp = c.cp, .tp = c.tp, .microbatches = c.microbatches};
}

void validate(const Plan& plan) {
  require(plan.dp >= 1 && plan.tp >= 1, [&] {
    return "--dp is " + std::to_string(plan.dp) + " and --tp " + std::to_string(plan.tp) + ", expected at least 1";
  });
  require(plan.pp == 1, [&] {
    return "--pp is " + std::to_string(plan.pp) + ", expected 1: models cannot be cut into pipelines yet";
  });
  require(plan.cp == 1, [&] {
    return "--cp is " + std::to_string(plan.cp) + ", expected 1: sequences cannot be split over ranks yet";
  });
}

}  // namespace adjoin::train
