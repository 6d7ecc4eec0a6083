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
  return text + ", tp " + std::to_string(tp) + (sp ? ", sp" : "");
}

std::string Plan::needs() const {
  return "--dp " + std::to_string(dp) + (cp > 1 ? " times --cp " + std::to_string(cp) : "") + " times --tp " +
         std::to_string(tp) + " needs " + (ranks() == 1 ? "1 rank" : std::to_string(ranks()) + " ranks");
}

Plan plan_of(const Configuration& c) {
  return {.dp = c.dp, .pp = c.pp, .cp = c.cp, .tp = c.tp, .sp = c.sp, .microbatches = c.microbatches};
}

Configuration on_plan(Configuration c, const Plan& plan) {
  c.dp = plan.dp;
  c.pp = plan.pp;
  c.cp = plan.cp;
  c.tp = plan.tp;
  c.sp = plan.sp;
  return c;
}

bool keeps_scores(const Configuration& c) {
  return c.cp > 1 && c.cp_method == "gathered";
}

std::string recompute_remark(const Configuration& c) {
  if (c.recompute != "attention" || keeps_scores(c)) return "";
  return std::string("--recompute attention is as none: ") +
         (c.cp == 1 ? "with --cp 1 attention keeps no scores" : "only --cp-method gathered keeps scores");
}

void validate(const Plan& plan) {
  require(plan.dp >= 1 && plan.cp >= 1 && plan.tp >= 1, [&] {
    return "--dp is " + std::to_string(plan.dp) + ", --cp " + std::to_string(plan.cp) + " and --tp " +
           std::to_string(plan.tp) + ", expected at least 1";
  });
  require(plan.pp == 1, [&] {
    return "--pp is " + std::to_string(plan.pp) + ", expected 1: models cannot be cut into pipelines yet";
  });
  require(!plan.sp || plan.tp > 1, "--sp splits rows over tensor-parallel ranks, and --tp is 1");
}

}  // namespace adjoin::train
