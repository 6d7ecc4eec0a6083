#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "adjoin/hugging_face/weight_files.hpp"
#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// Whether a folder holds a model of Hugging Face's transformers: whether its config.json names a model_type.
bool is_pretrained(const std::filesystem::path& folder);

/// Its config.json. Throws: InvalidArgument, with the name of the file
nlohmann::ordered_json read_config(const std::filesystem::path& folder);

/// The model of a folder; all other fields come from its recipe, the preset fine-tune or fine-tune-gpt. Texts are as long as in
/// the recipe, if the model has enough positions.
/// Throws: InvalidArgument, with the name of the file, also where the weights have another embedding or fewer blocks, or where
///         an adapter is beside them
Configuration read_pretrained(const std::filesystem::path& folder);

/// The entry of its config.json that limits the length of a text: "FOLDER/config.json has "sliding_window": 16".
std::string limit_of_tokens(const std::filesystem::path& folder);

/// The names of its classes, in the order of their ids. Throws: InvalidArgument, with the name of the file
std::vector<std::string> read_pretrained_classes(const std::filesystem::path& folder);

/// Its weights. `shapes`: the shapes of the model's tensors, by our names. Throws: InvalidArgument as find_weights
FamilyWeights find_pretrained_weights(const std::filesystem::path& folder,
                                      const std::map<std::string, std::vector<int64_t>>& shapes);

/// Calls `use` with the folder of a model: of a finished run, of transformers, or a run's newest checkpoint.
/// Throws: InvalidArgument as read_checkpoint
void read_model_folder(const std::filesystem::path& folder,
                       const std::function<void(const std::filesystem::path& folder)>& use);

/// The preset for training a model of this kind further.
std::string_view recipe_of(std::string_view model);

}  // namespace adjoin::train
