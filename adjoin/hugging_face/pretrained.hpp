#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "adjoin/hugging_face/weight_files.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/model_folder.hpp"

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

/// The names of its classes, in the order of their ids. Throws: InvalidArgument, with the name of the file
std::vector<std::string> read_pretrained_classes(const std::filesystem::path& folder);

/// Its weights. `shapes`: the shapes of the model's tensors, by our names. Throws: InvalidArgument as find_weights
FamilyWeights find_pretrained_weights(const std::filesystem::path& folder,
                                      const std::map<std::string, std::vector<int64_t>>& shapes);

/// The folder of a model, of either kind.
/// Throws: InvalidArgument for a checkpoint of a folder of transformers, which has none
std::unique_ptr<ModelFolder> model_folder(const CheckpointChoice& choice);

}  // namespace adjoin::train
