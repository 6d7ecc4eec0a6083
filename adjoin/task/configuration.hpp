#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "adjoin/models/transformer_options.hpp"
#include "adjoin/parallel/learning_rate.hpp"
#include "adjoin/task/grid_sizes.hpp"

namespace adjoin::train {

/// The words of options; the order is that of their choices in the table.
enum class ModelKind : uint8_t { classifier, decoder };
enum class OptimizerRule : uint8_t { adamw, sgd, muon };
using parallel::RateSchedule;
enum class Precision : uint8_t { fp64, fp32, bf16, fp16 };  ///< of the forward and backward pass
enum class Recompute : uint8_t { none, attention, segment };
enum class SaveMode : uint8_t { background, wait };
enum class SampleOrder : uint8_t { on, off };                       ///< whether the samples are shuffled
enum class TensorLoss : uint8_t { cross_entropy, mse, bce, none };  ///< of tensors; none: the program returns it

enum class Masks : uint8_t { adjoin, torch };  ///< what draws the masks of dropout in a program

/// The name of the task of a network that Python exported.
inline constexpr const char* kProgramTask = "program";

/// The options of a model, as a run has them by default.
struct ModelOptions : models::TransformerOptions {
  ModelOptions();
  bool operator==(const ModelOptions&) const = default;
};

/// Everything that decides a training run. The table that fields() returns has names, meanings, units and ranges. The model's
/// options are those of the models, of which transformer_options completes what depends on others: words, context and top_k of 0,
/// dropouts of -1.
struct Configuration : ModelOptions, WorkerOptions {
  std::string data{};
  std::string test{};
  std::string text_column{};
  std::string label_column{};
  std::string class_weights{};
  std::string vocab{};
  int64_t samples = 0;
  bool bucket = true;
  SampleOrder shuffle = SampleOrder::on;
  double validation = 0;

  std::string from{};
  std::string program{};
  std::string preset = "small";
  ModelKind model = ModelKind::classifier;
  int64_t vocabulary_size = 8000;
  int64_t sequence = 256;
  models::ClassifierOptions classifier{.pooling = models::ClassifierOptions::Pooling::mean, .dropout = -1};
  bool tied_scores = true;
  double token_dropout = 0;

  int64_t batch = 32;
  int64_t microbatches = 1;
  int64_t epochs = 2;
  int64_t steps = 0;
  double max_time = 0;
  OptimizerRule optimizer = OptimizerRule::adamw;
  double momentum = 0.9;
  TensorLoss loss = TensorLoss::cross_entropy;
  Masks masks = Masks::adjoin;
  double lr = 1e-3;
  RateSchedule schedule = RateSchedule::cosine;
  double warmup = 0.1;
  double lr_end = 0.0;
  double weight_decay = 0.01;
  double clip = 1.0;
  Precision precision = Precision::fp32;
  int64_t seed = 1;
  std::string same_bits = "off";

  nn::AttentionMethod cp_method = nn::AttentionMethod::ring;
  std::string pipeline = "1f1b";
  int64_t chunks = 1;
  std::string stages{};
  bool halves = false;
  Recompute recompute = Recompute::none;
  bool check_gradients = true;

  std::string out{};
  bool overwrite = false;
  std::string resume{};
  int64_t step = 0;
  int64_t eval_every = 0;
  int64_t checkpoint_every = 0;
  SaveMode save = SaveMode::background;
  int64_t keep = 2;
  int64_t patience = 0;
  bool tensorboard = false;
  int64_t hash_every = 0;
  std::string trace{};

  /// The name of a task of one's own, by which a run's folder says that the program `adjoin` does not know its task; "": the
  /// task that `model` names. kProgramTask is one that it knows. No option: make_task sets it.
  std::string task{};

  bool has_program() const { return !program.empty(); }
  /// Whether its data are tensors, not texts.
  bool is_of_tensors() const { return has_program() && vocab.empty(); }
  bool is_decoder() const { return model == ModelKind::decoder; }
  bool operator==(const Configuration&) const = default;
};

/// Micro-batches that each rank computes in a step: of --halves two for each of --microbatches.
inline int64_t parts_of_step(const Configuration& c) {
  return c.halves ? 2 * c.microbatches : c.microbatches;
}

/// Reaches a member of a configuration. That of a choice is its number, uint8_t.
template <class T>
struct Access {
  using Value = T;
  T& (*of)(Configuration&);

  T& operator()(Configuration& configuration) const { return of(configuration); }
  const T& operator()(const Configuration& configuration) const {
    return of(const_cast<Configuration&>(configuration));
  }
};

/// One member of Configuration, as the command line, the configuration files and the checks use it.
struct Field {
  using Member = std::variant<Access<int64_t>, Access<double>, Access<bool>, Access<std::string>, Access<uint8_t>>;

  std::string_view group;  // the heading in --help
  std::string_view name;   // "eval_every": the key in config.json; the option is --eval-every
  Member member;
  std::string_view help;       // meaning and unit
  std::string_view choices;    // "a|b": the only values of a string or an enumeration, in its order; "": any
  double least = 0, most = 0;  // range of a number, both ends included
  /// Which model has it, if only one does: "decoder", or "rotary=decoder none=classifier" where that is so for some values.
  std::string_view only = "";
};

/// The table of all fields, in the order of the help text.
std::span<const Field> fields();

/// The field of this name. Throws: InvalidArgument, with its option, where the table has none
const Field& field_named(std::string_view name);

/// A number in the form of messages and options: "0.1", "1000000".
std::string shown(double number);

/// The value of a field in the form of the command line: "0.1", "true", "bf16".
std::string text_of(const Field& field, const Configuration& configuration);

/// The same for the field of this name.
std::string text_of(std::string_view field, const Configuration& configuration);

/// Sets a field to the value that a text gives.
/// Throws: InvalidArgument, with the option's name, for a text that is not a number, or not true or false, where one is
///         expected, or not one of the choices
void set(const Field& field, std::string_view text, Configuration& configuration);
void set(std::string_view field, std::string_view text, Configuration& configuration);

/// The table of presets. The first row names the fields that presets decide, after "preset" and "model"; each other row has the
/// values of one preset; "-" where the model has no such field, which then keeps its default.
const std::vector<std::vector<std::string_view>>& presets();

/// The preset of a model if none is named.
std::string_view default_preset(ModelKind model);

/// The preset for training a model of this kind further.
std::string_view recipe_of(ModelKind model);

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

/// Whether a field says something about an exported program.
bool is_for_programs(const Field& field);

/// Whether the model with which training begins decides this field.
bool beginning_decides(const Field& field);

/// Checks each field, and fields that must fit together. What only text models require is not required of a task of one's own.
/// Throws: InvalidArgument, in one line with the option, what was expected and what was given.
void validate(const Configuration& configuration);

/// Throws: InvalidArgument, in a sentence that begins with `where`, for the configuration of a task of one's own, which the
/// program does not know
void check_known(const Configuration& configuration, const std::string& where);

/// One key for each field that concerns the run, and "task" for a task of one's own.
nlohmann::ordered_json to_json(const Configuration& configuration);

/// Reads what to_json wrote; absent keys take the preset's value, or for a task of one's own the default.
/// Throws: InvalidArgument for a key that is not a field or a value of another type.
Configuration configuration_from_json(const nlohmann::ordered_json& json);

/// "eval_every" -> "--eval-every".
std::string option_of(std::string_view field);

}  // namespace adjoin::train
