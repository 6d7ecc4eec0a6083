#include <algorithm>
#include <initializer_list>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/task/class_weights.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/task/same_bits.hpp"
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
  if (const auto* member = std::get_if<Access<int64_t>>(&field.member))
    range(static_cast<double>((*member)(configuration)));
  if (const auto* member = std::get_if<Access<double>>(&field.member)) range((*member)(configuration));
  if (const auto* member = std::get_if<Access<std::string>>(&field.member)) {
    const std::string& value = (*member)(configuration);
    require(is_utf8(value), [&] { return option_of(field.name) + " is not UTF-8"; });
    C checked;
    if (!field.choices.empty()) set(field, value, checked);  // throws where it is not one of the choices
  }
}

/// Refuses options that are given and mean nothing, as the field `decider` is not `what`.
void check_meaning(std::initializer_list<const char*> names, bool is_meant, const std::string& what,
                   const char* decider, const C& c) {
  for (const char* name : names)
    require(is_meant || text_of(name, c) == text_of(name, C()), [&] {
      return option_of(name) + " is for " + what + ", and " + option_of(decider) + " is " + text_of(decider, c);
    });
}

void check_experts(const Configuration& c) {
  const auto text = [](const char* option, int64_t number) { return option + (" " + std::to_string(number)); };
  require(c.experts.top_k <= c.experts.count,
          [&] { return text("--top-k", c.experts.top_k) + " is more than " + text("--experts", c.experts.count); });
  check_meaning({"moe_every", "normalise_gates", "balance_loss", "z_loss"}, c.experts.count > 1,
                "--experts of 2 or more", "experts", c);
  require(c.experts.count == 1 || c.experts.every <= c.layers, [&] {
    return text("--moe-every", c.experts.every) + " is more than " + text("--layers", c.layers) +
           ": no block would have experts";
  });
  require(c.experts.count % c.ep == 0, [&] {
    return text("--ep", c.ep) + " does not divide " + text("--experts", c.experts.count) +
           ": each expert-parallel rank holds the same number of experts";
  });
}

void check_halves(const C& c) {
  if (!c.halves) return;
  const auto check = [](bool is_right, const std::string& what, const std::string& reason) {
    require(is_right, [&] { return "--halves with " + what + ": " + reason; });
  };
  check(c.tp > 1, "--tp 1", "there are no calls of tensor-parallel ranks beside which a half could compute");
  check(c.pp == 1, "--pp " + std::to_string(c.pp), "a pipeline has its own order of micro-batches");
  check(c.pipeline == C().pipeline, "--pipeline " + c.pipeline, "the halves have their own order");
  check(c.zero == 1, "--zero " + std::to_string(c.zero),
        "sums and gathers of what ranks divide belong to one thread of a rank");
}

void check_rotary(const C& c) {
  check_meaning({"rotary_base", "rotary_scaling"}, c.positions == C::Positions::rotary, "--positions rotary",
                "positions", c);
  check_meaning({"rotary_factor"}, c.rotary.scaling != nn::RotaryOptions::Scaling::none,
                "--rotary-scaling linear or llama3", "rotary_scaling", c);
  require(c.rotary.scaling != nn::RotaryOptions::Scaling::llama3 || c.rotary.low_turns < c.rotary.high_turns, [&] {
    return "--rotary-low-turns " + shown(c.rotary.low_turns) + ": expected less than --rotary-high-turns " +
           shown(c.rotary.high_turns);
  });
  if (c.positions != C::Positions::rotary) return;
  require(c.head_size % 2 == 0, [&] {
    return "--positions rotary turns pairs of features: --head-size " + std::to_string(c.head_size) + " is odd";
  });
  require(c.head_size > 0 || c.hidden % (2 * c.heads) == 0, [&] {
    return "--positions rotary turns pairs of features: --hidden " + std::to_string(c.hidden) +
           " is not divisible by 2 times --heads " + std::to_string(c.heads);
  });
}

/// Refuses an option of the other model.
void check_model_has(const Field& field, const C& c) {
  const std::string value = text_of(field, c), model = text_of("model", c), option = option_of(field.name);
  const bool is_flag = std::holds_alternative<Access<bool>>(field.member);
  for (const std::string_view each : parts_of(field.only, ' ')) {
    const auto at = each.find('=');
    const std::string_view owner = at == each.npos ? each : each.substr(at + 1);
    const bool is_used = at == each.npos ? value != text_of(field, C()) : value == each.substr(0, at);
    require(!is_used || owner.empty() || owner == model, [&] {
      return (is_flag && value == "false" ? "--no-" + option.substr(2)
              : field.choices.empty()     ? option
                                          : option + " " + value) +
             " is for a " + std::string(owner) + ", and --model is " + model;
    });
  }
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
  for (const Field& field : fields()) check_model_has(field, c);
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

/// Checks what an exported program requires, and refuses what means nothing for it.
void check_program(const Configuration& c) {
  static const C defaults;
  for (const Field& field : fields())
    require(is_for_programs(field) || text_of(field, c) == text_of(field, defaults), [&] {
      return option_of(field.name) + " " + text_of(field, c) +
             (field.group == "Layout" ? ": a program is not laid out so yet; --dp, --tp, --pp and --zero are for it"
                                      : " is for adjoin's own models, and --program gives the network");
    });
  require(c.recompute != Recompute::attention,
          "--recompute attention is for adjoin's own models; segment is for a program too");
  require(c.optimizer != OptimizerRule::muon,
          "--optimizer muon: which weights of a program are matrices of layers is not known");
  const std::vector<std::string_view> of_texts{"text_column", "label_column",    "class_weights",
                                               "model",       "vocabulary_size", "sequence"};
  for (const std::string_view name : of_texts)
    require(!c.is_of_tensors() || text_of(name, c) == text_of(name, defaults),
            [&] { return option_of(name) + " is for texts, which --program reads with --vocab"; });
  for (const char* name : {"label_column", "class_weights"})
    require(!c.is_decoder() || text_of(name, c).empty(),
            [&] { return option_of(name) + " is for a classifier, and --model is decoder"; });
}

}  // namespace

void validate(const Configuration& c) {
  for (const Field& field : fields()) check_field(field, c);
  require(c.is_of_tensors() || c.loss == C().loss, "--loss is for --program on tensors");
  require(c.masks == Masks::adjoin || (c.has_program() && grid_sizes(c).ranks() == 1),
          "--masks torch is for a --program on one rank");
  if (c.has_program()) check_program(c);
  validate(grid_sizes(c));
  for (const char* name : {"dropout", "attention_dropout", "embedding_dropout", "classifier_dropout", "token_dropout",
                           "momentum", "validation"}) {
    const double value = std::get<Access<double>>(field_named(name).member)(c);
    require(value < 1, [&] { return option_of(name) + " is 1, expected less than 1"; });
    require(value >= 0 || value == -1,
            [&] { return option_of(name) + " is " + shown(value) + ", expected -1, or 0 to 1"; });
  }
  check_meaning({"fast"}, c.device != "cpu", "--device cuda", "device", c);
  check_meaning({"momentum"}, c.optimizer == OptimizerRule::sgd, "--optimizer sgd", "optimizer", c);
  require(c.patience == 0 || c.validation > 0,
          "--patience needs --validation, a part of the training samples to judge by");
  require(c.lr > 0, "--lr is 0, expected more than 0");
  require(c.norm_epsilon > 0, "--norm-epsilon is 0, expected more than 0");
  require(c.deadline == 0 || c.deadline >= kLeastDeadline, [&] {
    return "--deadline is " + shown(c.deadline) + ", expected 0 or " + shown(kLeastDeadline) + " to 1000000";
  });
  require(parts_of_step(c) <= c.batch, [&] {
    return "--microbatches " + std::to_string(c.microbatches) + (c.halves ? " in --halves" : "") +
           " is more than --batch " + std::to_string(c.batch) + ": some would be empty on all ranks";
  });
  check_halves(c);
  check_same_bits(c);
  traced_steps(c);          // throws for an invalid range
  listed_class_weights(c);  // likewise for what is no list
  check_experts(c);
  if (c.task.empty() && !c.has_program()) check_model(c);
}

void check_known(const Configuration& configuration, const std::string& where) {
  require(configuration.task.empty() || configuration.task == kProgramTask, [&] {
    return where + ": is of the task \"" + configuration.task +
           "\" of another program, which alone can continue, evaluate and use it (train::train, train::evaluate, "
           "train::predict); adjoin report, watch and checkpoint read its runs";
  });
}

}  // namespace adjoin::train
