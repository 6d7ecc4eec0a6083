#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adjoin/train/configuration.hpp"

namespace adjoin::train {

/// A key of a config.json and the field of Configuration that means the same.
struct FamilyKey {
  std::string_view theirs, ours;
  std::string_view standard;  ///< the value, as JSON, of a file without the key; null: the field keeps its default
  /// Their values, as JSON, and ours, where they are not equal; others are not supported.
  std::vector<std::pair<std::string_view, std::string_view>> values = {};
};

/// The names of a module's tensors here and in a family's files, "weight" and "bias" left out.
struct FamilyModule {
  std::string_view ours;                 ///< "block{}.attention.qkv", with {} for the number of the block
  std::vector<std::string_view> theirs;  ///< whose rows are stacked in ours
  bool is_transposed = false;            ///< their matrices have our rows as columns
  bool is_head = false;                  ///< does not belong to the trunk, whose names may have a prefix
};

/// A kind of model of Hugging Face's transformers: what its config.json and the names of its tensors mean here. Both tables are
/// read in both directions.
struct Family {
  std::string_view model_type;
  std::string_view model;                     ///< "classifier" or "decoder"
  std::string_view architecture;              ///< the class in transformers
  std::string_view prefix;                    ///< before the names of the trunk, in the files of a whole model
  std::vector<std::string_view> trunk_roots;  ///< how names of the trunk begin, behind the prefix
  bool is_rotary;
  std::vector<FamilyKey> keys;
  /// What all its models have: fields and their values as the command line has them.
  std::vector<std::pair<std::string_view, std::string_view>> fixed;
  /// Keys that change what a model computes, with the one value, as JSON, that is supported and that is meant without the key.
  std::vector<std::pair<std::string_view, std::string_view>> supported;
  std::vector<FamilyModule> modules;
};

std::span<const Family> families();

/// That of a config.json. Throws: InvalidArgument that lists those that are known
const Family& family_of(const nlohmann::ordered_json& config);

/// The model of a config.json, and nothing else, in a configuration.
/// Throws: InvalidArgument for values that are not supported, or not what they should be
void read_model(const Family& family, const nlohmann::ordered_json& config, Configuration& into);

/// The key of a config.json that decides how long a text may be, with its value: "sliding_window": 16.
std::string limit_of_tokens(const Family& family, const nlohmann::ordered_json& config);

/// An error about a configuration that read_model gave, with the keys of config.json for our options.
std::string in_words_of(const Family& family, std::string text);

/// The names of the classes of a config.json, in the order of their ids. Throws: InvalidArgument
std::vector<std::string> read_class_names(const nlohmann::ordered_json& config);

/// The config.json of a model whose embedding has so many rows.
nlohmann::ordered_json to_config(const Family& family, const Configuration& configuration, int64_t words,
                                 const std::vector<std::string>& classes);

/// What of a model a family cannot express: "--norm rms"; "" where it can all.
std::string not_expressed(const Family& family, const Configuration& configuration);

/// A tensor of theirs that is rows of one of ours.
struct FamilyTensor {
  std::string name;  ///< without the prefix of the trunk
  bool is_transposed = false, is_head = false;
};
/// What a tensor of ours, "block3.norm1.weight", is made of. Throws: InternalError for a tensor that the family lacks
std::vector<FamilyTensor> tensors_of(const Family& family, const std::string& ours);

}  // namespace adjoin::train
