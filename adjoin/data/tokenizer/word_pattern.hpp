#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace adjoin::data {

/// How a byte-level tokenizer cuts a text into words before it merges: the patterns of GPT-2 (Radford et al. 2019), of Llama 3
/// (Dubey et al. 2024), which is that of GPT-4's tokenizer, and of Qwen 2 (Yang et al. 2024).
enum class WordPattern { gpt2, llama3, qwen2 };

/// Qwen 2's regular expression; its older files do not contain it.
inline constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The pattern with exactly this regular expression; none for any other.
std::optional<WordPattern> known_pattern(std::string_view expression);

/// The end of the word that begins at `begin`, which must be below the text's size. Each pattern matches at every place of
/// every text, so words follow one another without gaps.
/// Cost: each byte of a text is looked at a bounded number of times, except in runs of white space: from a run's first byte,
///       \s+(?!\S) looks to the end of the run.
size_t word_end(WordPattern pattern, std::string_view text, size_t begin);

}  // namespace adjoin::data
