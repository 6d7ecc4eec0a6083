#include "adjoin/insitu/training.hpp"

#include <ATen/core/grad_mode.h>

#include <limits>

#include "adjoin/base/error.hpp"
#include "adjoin/insitu/fields.hpp"
#include "adjoin/store/checkpoint.hpp"

namespace adjoin::insitu {
using parallel::RateSchedule;
namespace {

constexpr double kMostReal = std::numeric_limits<double>::max(), kBelowOne = 0.9999999;

parallel::Rule rule_of(const Fields& fields) {
  const std::string name = fields.word("rule", "adamw");
  if (name == "adamw")
    return parallel::adamw({.beta1 = fields.number("beta1", 0.9, 0, kBelowOne),
                            .beta2 = fields.number("beta2", 0.999, 0, kBelowOne),
                            .epsilon = fields.number("epsilon", 1e-8, 0, 1)});
  if (name != "sgd") fields.refuse("rule", "adamw or sgd");
  return parallel::sgd({.momentum = fields.number("momentum", 0, 0, 1), .nesterov = fields.flag("nesterov", false)});
}

RateSchedule schedule_of(const Fields& fields) {
  const std::string name = fields.word("schedule", "constant");
  if (name == "linear") return RateSchedule::linear;
  if (name == "cosine") return RateSchedule::cosine;
  if (name != "constant") fields.refuse("schedule", "constant, linear or cosine");
  return RateSchedule::constant;
}

std::vector<nn::Parameter> pieces_of(const Network& network, const Training* training) {
  std::vector<nn::Parameter> pieces = network.parameters_and_buffers();
  if (training)
    for (nn::Parameter& piece : training->state()) pieces.push_back(std::move(piece));
  return pieces;
}

}  // namespace

Training::Training(const Network& network, const std::string& description) {
  const nlohmann::json all = parsed("optimizer", description);
  const Fields fields("optimizer", all);
  parallel::Rule rule = rule_of(fields);
  parallel::OptimizerOptions options;
  options.weight_decay = fields.number("decay", 0, 0, kMostReal);
  options.clip = fields.number("clip", 0, 0, kMostReal);
  options.joins_decays = true;
  options.workers = network.blocks().grid().world();
  const int64_t warmup = fields.integer("warmup", 0, 0), steps = fields.integer("steps", 0, 0);
  rate_ = {.peak = fields.number("rate", 1e-3, 0, kMostReal),
           .schedule = schedule_of(fields),
           .warmup = static_cast<double>(warmup),
           .steps = static_cast<double>(steps)};
  if (rate_.schedule != RateSchedule::constant && steps <= warmup)
    fields.refuse("steps", "a number above the " + std::to_string(warmup) + " steps of \"warmup\"");
  fields.end();
  optimizer_.emplace(network.parameters_and_buffers(), std::move(rule), std::move(options));
}

parallel::Update Training::step(std::optional<double> rate) {
  return optimizer_->step(rate.value_or(rate_.at(optimizer_->steps_taken())));
}

void save(const std::filesystem::path& path, const Network& network, const Training* training) {
  const Grid& grid = network.blocks().grid();
  if (!grid.has_me()) return;
  std::vector<nn::Parameter> pieces = pieces_of(network, training);
  for (nn::Parameter& piece : pieces)  // what all ranks hold is written by those that have cells
    if (piece.layout.grid() != grid.shape()) piece.layout = nn::layout_copied_on(grid.shape(), piece.layout.shape());
  train::save_state(path, pieces, grid, {{"network", network.description()}});
}

void load(const std::filesystem::path& path, const Network& network, const Training* training) {
  const at::NoGradGuard none;
  train::load_state(path, pieces_of(network, training), {.may_hold_more = training == nullptr});
}

}  // namespace adjoin::insitu
