#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "adjoin/train/precision.hpp"

namespace adjoin::train {

/// Everything that decides a training run. Names, meanings, units and ranges stand in the table that fields() gives.
struct Configuration {
  std::string data{};
  std::string test{};
  std::string text_column{};
  std::string label_column{};
  std::string vocab{};
  int64_t samples = 0;
  bool bucket = true;
  double validation = 0;

  std::string from{};
  std::string preset = "small";
  std::string model = "classifier";
  int64_t vocabulary_size = 8000;
  int64_t layers = 2;
  int64_t hidden = 128;
  int64_t heads = 4;
  int64_t key_heads = 0;
  int64_t head_size = 0;
  int64_t inner = 0;
  std::string activation = "gelu";
  int64_t words = 0;
  int64_t sequence = 256;
  int64_t context = 0;
  std::string pooling = "mean";
  std::string positions = "learned";
  std::string score_scale = "head";
  std::string norm = "layer";
  std::string norm_place = "before";
  double norm_epsilon = 1e-5;
  bool final_norm = true;
  bool embedding_norm = false;
  int64_t token_types = 0;
  bool pooler = false;
  std::string attention_bias = "none";
  bool feed_forward_bias = false;
  bool tied_scores = true;
  double rotary_base = 10000;
  std::string rotary_scaling = "none";
  double rotary_factor = 1;
  double rotary_low_turns = 1;
  double rotary_high_turns = 4;
  int64_t rotary_trained = 8192;
  double dropout = 0.1;
  double attention_dropout = 0;
  double embedding_dropout = -1;
  double classifier_dropout = -1;
  double token_dropout = 0;
  int64_t experts = 1;
  int64_t top_k = 0;
  int64_t moe_every = 1;
  bool normalise_gates = true;

  int64_t batch = 32;
  int64_t microbatches = 1;
  int64_t epochs = 2;
  int64_t steps = 0;
  double max_time = 0;
  std::string optimizer = "adamw";
  double momentum = 0.9;
  double lr = 1e-3;
  std::string schedule = "cosine";
  double warmup = 0.1;
  double lr_end = 0.0;
  double weight_decay = 0.01;
  double clip = 1.0;
  double balance_loss = 0.01;
  double z_loss = 0.001;
  Precision precision = Precision::fp32;
  int64_t seed = 1;

  int64_t dp = 1;
  int64_t pp = 1;
  int64_t cp = 1;
  int64_t tp = 1;
  int64_t ep = 1;
  bool sp = false;
  int64_t zero = 1;
  std::string cp_method = "ring";
  std::string pipeline = "1f1b";
  int64_t chunks = 1;
  std::string stages{};
  std::string recompute = "none";
  std::string backend = "auto";
  int64_t threads_per_rank = 0;
  bool deterministic = false;
  bool checked = false;
  double deadline = 0;
  std::string host_memory = "auto";
  bool check_gradients = true;

  std::string out{};
  bool overwrite = false;
  std::string resume{};
  int64_t step = 0;
  int64_t eval_every = 0;
  int64_t checkpoint_every = 0;
  std::string save = "background";
  int64_t keep = 2;
  int64_t patience = 0;
  bool tensorboard = false;
  std::string trace{};

  bool operator==(const Configuration&) const = default;
};

/// One member of Configuration, as the command line, the configuration files and the checks see it.
struct Field {
  using Member = std::variant<int64_t Configuration::*, double Configuration::*, bool Configuration::*,
                              std::string Configuration::*, Precision Configuration::*>;

  std::string_view group;  // the heading in --help
  std::string_view name;   // "eval_every": the key in config.json; the option is --eval-every
  Member member;
  std::string_view help;       // meaning and unit
  std::string_view choices;    // "a|b": the only values of a string or an enumeration, in its order; "": any
  double least = 0, most = 0;  // of a number, both included
};

/// The table of all fields, in the order of the help text.
std::span<const Field> fields();

/// The one of this name, which is in the table.
const Field& field_named(std::string_view name);

/// A number as messages and options have it: "0.1", "1000000".
std::string shown(double number);

/// The value of a field as the command line takes it: "0.1", "true", "bf16".
std::string text_of(const Field& field, const Configuration& configuration);

/// Sets a field to what a text says.
/// Throws: InvalidArgument that names the option, for a number that is none, and for none of the choices
void set(const Field& field, std::string_view text, Configuration& configuration);

/// The table of presets: the first row has the names of the fields that they decide, "preset" and "model" before the others,
/// and each other row their values; "-" where the model has no such thing, and the field keeps its default.
const std::vector<std::vector<std::string_view>>& presets();

/// The preset of a model, where none is named.
std::string_view default_preset(std::string_view model);

/// A configuration as the preset of this name gives it.
/// Throws: InvalidArgument that lists the known names.
Configuration configuration_of(std::string_view preset);

/// Whether presets decide this field.
bool preset_decides(std::string_view field);

/// Whether a resumed run cannot change this field: what its weights or its optimizer's moments mean hangs on it.
bool resumed_run_keeps(const Field& field);

/// Whether the model that training begins with decides this field.
bool beginning_decides(const Field& field);

/// The one-line checks of each field and of fields that must fit together.
/// Throws: InvalidArgument that names the option, what was expected and what came.
void validate(const Configuration& configuration);

/// One key a field.
nlohmann::ordered_json to_json(const Configuration& configuration);

/// Reads what to_json gave; absent keys take the preset's value.
/// Throws: InvalidArgument for a key that is no field or a value of another type.
Configuration configuration_from_json(const nlohmann::ordered_json& json);

/// "eval_every" -> "--eval-every".
std::string option_of(std::string_view field);

}  // namespace adjoin::train
