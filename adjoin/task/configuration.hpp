#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "adjoin/task/precision.hpp"

namespace adjoin::train {

/// Everything that decides a training run. The table that fields() returns has names, meanings, units and ranges.
struct Configuration {
  std::string data{};
  std::string test{};
  std::string text_column{};
  std::string label_column{};
  std::string class_weights{};
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

  /// The name of a task of one's own, by which a run's folder says that the program `adjoin` does not know its task; "": the
  /// task that `model` names. No option: make_task sets it.
  std::string task{};

  bool operator==(const Configuration&) const = default;
};

/// One member of Configuration, as the command line, the configuration files and the checks use it.
struct Field {
  using Member = std::variant<int64_t Configuration::*, double Configuration::*, bool Configuration::*,
                              std::string Configuration::*, Precision Configuration::*>;

  std::string_view group;  // the heading in --help
  std::string_view name;   // "eval_every": the key in config.json; the option is --eval-every
  Member member;
  std::string_view help;       // meaning and unit
  std::string_view choices;    // "a|b": the only values of a string or an enumeration, in its order; "": any
  double least = 0, most = 0;  // range of a number, both ends included
};

/// The table of all fields, in the order of the help text.
std::span<const Field> fields();

/// The field of this name. Throws: InvalidArgument, with its option, where the table has none
const Field& field_named(std::string_view name);

/// A number in the form of messages and options: "0.1", "1000000".
std::string shown(double number);

/// The value of a field in the form of the command line: "0.1", "true", "bf16".
std::string text_of(const Field& field, const Configuration& configuration);

/// Sets a field to the value that a text gives.
/// Throws: InvalidArgument, with the option's name, for a text that is not a number, or not true or false, where one is
///         expected, or not one of the choices
void set(const Field& field, std::string_view text, Configuration& configuration);

/// The table of presets. The first row names the fields that presets decide, after "preset" and "model"; each other row has the
/// values of one preset; "-" where the model has no such field, which then keeps its default.
const std::vector<std::vector<std::string_view>>& presets();

/// The preset of a model if none is named.
std::string_view default_preset(std::string_view model);

/// The configuration that the preset of this name gives.
/// Throws: InvalidArgument that lists the known names.
Configuration configuration_of(std::string_view preset);

/// Whether presets decide this field.
bool preset_decides(std::string_view field);

/// Whether a resumed run cannot change this field, because the meaning of its weights or its optimizer's moments depends on it.
bool resumed_run_keeps(const Field& field);

/// Whether a field says something about a run. Those of texts and of their models say nothing about a task of one's own, unless
/// its program set them.
bool concerns(const Field& field, const Configuration& configuration);

/// Whether the model with which training begins decides this field.
bool beginning_decides(const Field& field);

/// Checks each field, and fields that must fit together. What only text models require is not required of a task of one's own.
/// Throws: InvalidArgument, in one line with the option, what was expected and what was given.
void validate(const Configuration& configuration);

/// One key for each field that concerns the run, and "task" for a task of one's own.
nlohmann::ordered_json to_json(const Configuration& configuration);

/// Reads what to_json wrote; absent keys take the preset's value, or for a task of one's own the default.
/// Throws: InvalidArgument for a key that is not a field or a value of another type.
Configuration configuration_from_json(const nlohmann::ordered_json& json);

/// "eval_every" -> "--eval-every".
std::string option_of(std::string_view field);

}  // namespace adjoin::train
