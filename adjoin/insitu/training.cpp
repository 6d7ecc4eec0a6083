#include "adjoin/insitu/training.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "adjoin/base/error.hpp"
#include "adjoin/insitu/fields.hpp"
#include "adjoin/store/checkpoint.hpp"

namespace adjoin::insitu {
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
  schedule_ = fields.word("schedule", "constant");
  rate_ = fields.number("rate", 1e-3, 0, kMostReal);
  warmup_ = fields.integer("warmup", 0, 0);
  steps_ = fields.integer("steps", 0, 0);
  if (schedule_ != "constant" && schedule_ != "linear" && schedule_ != "cosine")
    fields.refuse("schedule", "constant, linear or cosine");
  if (schedule_ != "constant" && steps_ <= warmup_)
    fields.refuse("steps", "a number above the " + std::to_string(warmup_) + " steps of \"warmup\"");
  fields.end();
  optimizer_.emplace(network.parameters_and_buffers(), std::move(rule), std::move(options));
}

double Training::rate_of(int64_t step) const {
  const auto at = static_cast<double>(step), warmup = static_cast<double>(warmup_);
  if (step < warmup_) return rate_ * (at + 1) / warmup;
  if (schedule_ == "constant") return rate_;
  const double gone = std::min(1.0, (at - warmup) / (static_cast<double>(steps_) - warmup));
  return rate_ * (schedule_ == "linear" ? 1 - gone : (1 + std::cos(std::numbers::pi * gone)) / 2);
}

parallel::Update Training::step(std::optional<double> rate) {
  return optimizer_->step(rate.value_or(rate_of(optimizer_->steps_taken())));
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
