#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "adjoin/train/configuration.hpp"
#include "adjoin/train/hugging_face/weight_files.hpp"

namespace adjoin::train {

/// Whether a folder holds a model of Hugging Face's transformers: its config.json names a model_type.
bool is_pretrained(const std::filesystem::path& folder);

/// Its config.json. Throws: InvalidArgument that names the file
nlohmann::ordered_json read_config(const std::filesystem::path& folder);

/// The model of a folder, and all else as its recipe, the preset fine-tune or fine-tune-gpt, has it. Texts are as long as the
/// recipe says, where the model has positions for so many tokens.
/// Throws: InvalidArgument that names the file, also where the weights have another embedding or fewer blocks
Configuration read_pretrained(const std::filesystem::path& folder);

/// What in it decides how long a text may be: "FOLDER/config.json has "sliding_window": 16".
std::string limit_of_tokens(const std::filesystem::path& folder);

/// The names of its classes, in the order of their ids. Throws: InvalidArgument that names the file
std::vector<std::string> read_pretrained_classes(const std::filesystem::path& folder);

/// Its weights. `shapes`: those of the model's tensors by our names. Throws: InvalidArgument as find_weights
FamilyWeights find_pretrained_weights(const std::filesystem::path& folder,
                                      const std::map<std::string, std::vector<int64_t>>& shapes);

/// The recipe for training a model of this kind on: the name of the preset.
std::string_view recipe_of(std::string_view model);

}  // namespace adjoin::train
