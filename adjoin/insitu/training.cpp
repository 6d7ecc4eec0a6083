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

constexpr double kMostReal = std::numeric_limits<double>::max();

parallel::Rule rule_of(const Fields& fields) {
  const std::string name = fields.word("rule", "adamw");
  if (name == "adamw")
    return parallel::adamw({.beta1 = fields.number("beta1", 0.9, 0, 1),
                            .beta2 = fields.number("beta2", 0.999, 0, 1),
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

Training::Choice Training::choice_of(const Network& network, const std::string& description) {
  const nlohmann::json all = parsed("optimizer", description);
  const Fields fields("optimizer", all);
  Choice choice{rule_of(fields), {}, {}};
  choice.options.weight_decay = fields.number("decay", 0, 0, kMostReal);
  choice.options.clip = fields.number("clip", 0, 0, kMostReal);
  choice.options.joins_decays = true;
  choice.options.workers = network.blocks().grid().world();
  Schedule& schedule = choice.schedule;
  schedule.name = fields.word("schedule", "constant");
  schedule.rate = fields.number("rate", 1e-3, 0, kMostReal);
  schedule.warmup = fields.integer("warmup", 0, 0);
  schedule.steps = fields.integer("steps", 0, 0);
  if (schedule.name != "constant" && schedule.name != "linear" && schedule.name != "cosine")
    fields.refuse("schedule", "constant, linear or cosine");
  if (schedule.name != "constant" && schedule.steps <= schedule.warmup)
    fields.refuse("steps", "a number above the " + std::to_string(schedule.warmup) + " steps of \"warmup\"");
  fields.end();
  return choice;
}

Training::Training(const Network& network, const std::string& description)
    : Training(network, choice_of(network, description)) {}

Training::Training(const Network& network, Choice choice)
    : schedule_(std::move(choice.schedule)),
      optimizer_(network.parameters_and_buffers(), std::move(choice.rule), std::move(choice.options)) {}

double Training::rate_of(int64_t step) const {
  const auto at = static_cast<double>(step), warmup = static_cast<double>(schedule_.warmup);
  if (step < schedule_.warmup) return schedule_.rate * (at + 1) / warmup;
  if (schedule_.name == "constant") return schedule_.rate;
  const double gone = std::min(1.0, (at - warmup) / (static_cast<double>(schedule_.steps) - warmup));
  return schedule_.rate * (schedule_.name == "linear" ? 1 - gone : (1 + std::cos(std::numbers::pi * gone)) / 2);
}

parallel::Update Training::step(std::optional<double> rate) {
  return optimizer_.step(rate.value_or(rate_of(optimizer_.steps_taken())));
}

void save(const std::filesystem::path& path, const Network& network, const Training* training) {
  if (!network.blocks().grid().has_me()) return;
  train::save_state(path, pieces_of(network, training), network.blocks().grid(), {{"network", network.description()}});
}

void load(const std::filesystem::path& path, const Network& network, const Training* training) {
  const at::NoGradGuard none;
  train::load_state(path, pieces_of(network, training), {.may_hold_more = training == nullptr});
}

}  // namespace adjoin::insitu
