#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/task/class_weights.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/task/traced_steps.hpp"

namespace adjoin::train {
namespace {

using C = Configuration;
constexpr double kLeastDeadline = 1e-3;  // seconds; communicators count in these

bool is_utf8(std::string text) {
  return drop_invalid_utf8(text) == 0;
}

void check_field(const Field& field, const Configuration& configuration) {
  const auto range = [&](double value) {
    require(value >= field.least && value <= field.most, [&] {  // a NaN fails both
      return option_of(field.name) + " is " + shown(value) + ", expected " + shown(field.least) + " to " +
             shown(field.most);
    });
  };
  if (const auto* member = std::get_if<int64_t C::*>(&field.member)) range(static_cast<double>(configuration.**member));
  if (const auto* member = std::get_if<double C::*>(&field.member)) range(configuration.**member);
  if (const auto* member = std::get_if<std::string C::*>(&field.member)) {
    const std::string& value = configuration.**member;
    require(is_utf8(value), [&] { return option_of(field.name) + " is not UTF-8"; });
    C checked;
    if (!field.choices.empty()) set(field, value, checked);  // throws where it is not one of the choices
  }
}

void check_experts(const Configuration& c) {
  const auto text = [](const char* option, int64_t number) { return option + (" " + std::to_string(number)); };
  require(c.top_k <= c.experts,
          [&] { return text("--top-k", c.top_k) + " is more than " + text("--experts", c.experts); });
  const C defaults;
  for (const char* name : {"moe_every", "normalise_gates", "balance_loss", "z_loss"}) {
    const Field& field = field_named(name);
    require(c.experts > 1 || text_of(field, c) == text_of(field, defaults),
            [&] { return option_of(name) + " is for --experts of 2 or more, and --experts is 1"; });
  }
  require(c.experts == 1 || c.moe_every <= c.layers, [&] {
    return text("--moe-every", c.moe_every) + " is more than " + text("--layers", c.layers) +
           ": no block would have experts";
  });
  require(c.experts % c.ep == 0, [&] {
    return text("--ep", c.ep) + " does not divide " + text("--experts", c.experts) +
           ": each expert-parallel rank holds the same number of experts";
  });
}

void check_rotary(const C& c) {
  const C defaults;
  for (const char* name : {"rotary_base", "rotary_scaling"}) {
    const Field& field = field_named(name);
    require(c.positions == "rotary" || text_of(field, c) == text_of(field, defaults),
            [&] { return option_of(name) + " is for --positions rotary, and --positions is " + c.positions; });
  }
  require(c.rotary_scaling != "none" || c.rotary_factor == 1,
          "--rotary-factor is for --rotary-scaling linear or llama3, and --rotary-scaling is none");
  require(c.rotary_scaling != "llama3" || c.rotary_low_turns < c.rotary_high_turns, [&] {
    return "--rotary-low-turns " + shown(c.rotary_low_turns) + ": expected less than --rotary-high-turns " +
           shown(c.rotary_high_turns);
  });
  if (c.positions != "rotary") return;
  require(c.head_size % 2 == 0, [&] {
    return "--positions rotary turns pairs of features: --head-size " + std::to_string(c.head_size) + " is odd";
  });
  require(c.head_size > 0 || c.hidden % (2 * c.heads) == 0, [&] {
    return "--positions rotary turns pairs of features: --hidden " + std::to_string(c.hidden) +
           " is not divisible by 2 times --heads " + std::to_string(c.heads);
  });
}

/// Checks what only models of texts require, and what only one kind of them has.
void check_model(const Configuration& c) {
  require(c.context == 0 || c.context >= c.sequence, [&] {
    return "--sequence " + std::to_string(c.sequence) + " is more than --context " + std::to_string(c.context) +
           ": the model has positions for no more tokens";
  });
  require(c.from.empty() == !c.preset.starts_with("fine-tune"), [&] {
    return c.from.empty() ? "--preset " + c.preset +
                                " is the recipe for training an existing model further, and --from does not name one"
                          : "--preset " + c.preset + ": --from decides the model";
  });
  require(c.cp <= c.sequence, [&] {
    return "--cp " + std::to_string(c.cp) + " is more than --sequence " + std::to_string(c.sequence) +
           ": a context-parallel rank needs at least one token";
  });
  const bool is_decoder = c.model == "decoder";
  const auto refuse = [&](bool wrong, const std::string& option, const char* of) {
    require(!wrong, [&] { return option + " is for a " + of + ", and --model is " + c.model; });
  };
  refuse(!is_decoder && c.positions == "rotary", "--positions rotary", "decoder");
  refuse(!is_decoder && c.key_heads != 0, "--key-heads", "decoder");
  refuse(!is_decoder && c.activation == "swiglu", "--activation swiglu", "decoder");
  refuse(!is_decoder && !c.tied_scores, "--no-tied-scores", "decoder");
  refuse(is_decoder && c.pooling != "mean", "--pooling " + c.pooling, "classifier");
  refuse(is_decoder && c.token_dropout != 0, "--token-dropout", "classifier");
  refuse(is_decoder && c.score_scale != "head", "--score-scale " + c.score_scale, "classifier");
  refuse(is_decoder && !c.final_norm, "--no-final-norm", "classifier");
  refuse(is_decoder && c.positions == "none", "--positions none", "classifier");
  refuse(is_decoder && c.norm_place == "after", "--norm-place after", "classifier");
  refuse(is_decoder && c.embedding_norm, "--embedding-norm", "classifier");
  refuse(is_decoder && c.token_types > 0, "--token-types", "classifier");
  refuse(is_decoder && c.pooler, "--pooler", "classifier");
  refuse(is_decoder && c.classifier_dropout != C().classifier_dropout, "--classifier-dropout", "classifier");
  refuse(is_decoder && !c.label_column.empty(), "--label-column", "classifier");
  refuse(is_decoder && !c.class_weights.empty(), "--class-weights", "classifier");
  check_rotary(c);
  require(c.head_size > 0 || c.hidden % c.heads == 0, [&] {
    return "--hidden " + std::to_string(c.hidden) + " is not divisible by --heads " + std::to_string(c.heads);
  });
  require(c.tp <= c.heads, [&] {
    return "--tp " + std::to_string(c.tp) + " is more than --heads " + std::to_string(c.heads) +
           ": a tensor-parallel rank needs at least one head";
  });
  if (c.key_heads == 0) return;
  require(c.heads % c.key_heads == 0, [&] {
    return "--heads " + std::to_string(c.heads) + " is not divisible by --key-heads " + std::to_string(c.key_heads);
  });
  require(c.tp <= c.key_heads, [&] {
    return "--tp " + std::to_string(c.tp) + " is more than --key-heads " + std::to_string(c.key_heads) +
           ": a tensor-parallel rank needs at least one head of keys";
  });
}

}  // namespace

void validate(const Configuration& c) {
  for (const Field& field : fields()) check_field(field, c);
  validate(grid_sizes(c));
  for (const char* name :
       {"dropout", "attention_dropout", "embedding_dropout", "classifier_dropout", "token_dropout"}) {
    const double value = c.*std::get<double C::*>(field_named(name).member);
    require(value < 1, [&] { return option_of(name) + " is 1, expected less than 1"; });
    require(value >= 0 || value == -1,
            [&] { return option_of(name) + " is " + shown(value) + ", expected -1, or 0 to 1"; });
  }
  require(c.momentum < 1, "--momentum is 1, expected less than 1");
  require(c.optimizer == "sgd" || c.momentum == C().momentum,
          [&] { return "--momentum is for --optimizer sgd, and --optimizer is " + c.optimizer; });
  require(c.validation < 1, "--validation is 1, expected less than 1");
  require(c.patience == 0 || c.validation > 0,
          "--patience needs --validation, a part of the training samples to judge by");
  require(c.lr > 0, "--lr is 0, expected more than 0");
  require(c.norm_epsilon > 0, "--norm-epsilon is 0, expected more than 0");
  require(c.deadline == 0 || c.deadline >= kLeastDeadline, [&] {
    return "--deadline is " + shown(c.deadline) + ", expected 0 or " + shown(kLeastDeadline) + " to 1000000";
  });
  require(c.microbatches <= c.batch, [&] {
    return "--microbatches " + std::to_string(c.microbatches) + " is more than --batch " + std::to_string(c.batch) +
           ": some would be empty on all ranks";
  });
  traced_steps(c);          // throws for an invalid range
  listed_class_weights(c);  // likewise for what is no list
  check_experts(c);
  if (c.task.empty()) check_model(c);
}

}  // namespace adjoin::train
