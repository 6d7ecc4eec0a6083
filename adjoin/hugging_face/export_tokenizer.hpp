#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "adjoin/data/tokenizer/text_vocabulary.hpp"
#include "adjoin/data/tokenizer/wordpiece.hpp"
#include "adjoin/task/task.hpp"

namespace adjoin::train {

/// The files by which transformers opens a tokenizer: tokenizer.json and tokenizer_config.json; none where transformers has no
/// such tokenizer. The ids of special tokens are put into `config`, the model's config.json.
/// Throws: InvalidArgument for a model whose tokenizer transformers would replace by another
std::vector<TaskFile> tokenizer_files(const data::WordPiece& words, int64_t context, nlohmann::ordered_json& config);
std::vector<TaskFile> tokenizer_files(const data::TextVocabulary& vocabulary, int64_t context,
                                      nlohmann::ordered_json& config);

/// The tokenizer files of a folder of transformers, unchanged. `vocabulary`: of a decoder, else null.
std::vector<TaskFile> copied_tokenizer_files(const std::filesystem::path& folder,
                                             const data::TextVocabulary* vocabulary, nlohmann::ordered_json& config);

}  // namespace adjoin::train
