#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// A key of a config.json and the field of Configuration that means the same.
struct FamilyKey {
  std::string_view theirs, ours;
  std::string_view standard;  ///< the value, as JSON, that a missing key stands for; null: the field keeps its default
  /// Their values, as JSON, and ours, where the two differ; other values are not supported.
  std::vector<std::pair<std::string_view, std::string_view>> values = {};
  std::string_view alias = "";  ///< another name of the key; transformers prefers it if a config.json has both
};

/// The names of a module's tensors here and in a family's files, without "weight" and "bias".
struct FamilyModule {
  std::string_view ours;                 ///< "block{}.attention.qkv"; {} stands for the number of the block
  std::vector<std::string_view> theirs;  ///< the modules whose rows are stacked in ours
  bool is_transposed = false;            ///< the rows of our matrices are columns in theirs
  bool is_head = false;                  ///< is not in the trunk, whose names may have a prefix
};

/// Where a config.json limits attention to a window of tokens: by "sliding_window"; the same, and a missing key means 4,096 tokens;
/// or so only if "use_sliding_window" is true.
enum class Window : uint8_t { by_key, unless_null, by_switch };

/// A kind of model of Hugging Face's transformers: what its config.json and the names of its tensors mean here. Both tables are
/// used in both directions.
struct Family {
  std::string_view model_type;
  ModelKind model;
  std::string_view architecture;              ///< the class in transformers
  std::string_view prefix;                    ///< stands before the names of the trunk in the files of a whole model
  std::vector<std::string_view> trunk_roots;  ///< how names of the trunk begin, after the prefix
  bool is_rotary;
  std::vector<FamilyKey> keys;
  /// What all models of the family have in common: fields and their values, in the form of the command line.
  std::vector<std::pair<std::string_view, std::string_view>> fixed;
  /// Keys that only some families have and that change what a model computes, each with the only value, as JSON, that is
  /// supported; a missing key means this value. (The keys of all families are in read_model.)
  std::vector<std::pair<std::string_view, std::string_view>> supported;
  std::vector<FamilyModule> modules;
  Window window = Window::by_key;
};

std::span<const Family> families();

/// The family of a config.json. Throws: InvalidArgument, with a list of the known ones
const Family& family_of(const nlohmann::ordered_json& config);

/// Sets the fields of a configuration that a config.json decides: the model, and nothing else.
/// Throws: InvalidArgument for values that are not supported or not valid
void read_model(const Family& family, const nlohmann::ordered_json& config, Configuration& into);

/// The key of a config.json that limits the length of a text, with its value: "sliding_window": 16.
std::string limit_of_tokens(const Family& family, const nlohmann::ordered_json& config);

/// An error text about a configuration from read_model, with the keys of config.json instead of our options.
std::string in_words_of(const Family& family, std::string text);

/// The names of the classes of a config.json, in the order of their ids. Throws: InvalidArgument
std::vector<std::string> read_class_names(const nlohmann::ordered_json& config);

/// The config.json of a model whose embedding has `words` rows.
nlohmann::ordered_json to_config(const Family& family, const Configuration& configuration, int64_t words,
                                 const std::vector<std::string>& classes);

/// The parts of a model that a family cannot express: "--norm rms"; "" where it can express all.
std::string not_expressed(const Family& family, const Configuration& configuration);

/// A tensor of the family whose rows are some rows of one of ours.
struct FamilyTensor {
  std::string name;  ///< without the prefix of the trunk
  bool is_transposed = false, is_head = false;
};
/// The tensors that make up one of ours, "block3.norm1.weight". Throws: InternalError for a tensor that the family lacks
std::vector<FamilyTensor> tensors_of(const Family& family, const std::string& ours);

}  // namespace adjoin::train
