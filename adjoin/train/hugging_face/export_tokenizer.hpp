#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "adjoin/train/task.hpp"

namespace adjoin::train {

/// The files by which transformers opens the tokenizer of a task: tokenizer.json and tokenizer_config.json; none where
/// transformers has no such tokenizer. The ids of special tokens are put into `config`, the model's config.json.
/// Throws: InvalidArgument for a model whose tokenizer transformers would replace by another
std::vector<TaskFile> tokenizer_files(const Task& task, int64_t context, nlohmann::ordered_json& config);

/// The tokenizer files of a folder of transformers, unchanged.
std::vector<TaskFile> copied_tokenizer_files(const std::filesystem::path& folder, const Task& task,
                                             nlohmann::ordered_json& config);

}  // namespace adjoin::train
