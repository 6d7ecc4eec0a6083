#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace adjoin::data {

/// How a byte-level tokenizer cuts a text into words before it merges: the patterns of GPT-2 (Radford et al. 2019), of
/// Llama 3 (Dubey et al. 2024), which came with GPT-4's tokenizer, and of Qwen 2 (Yang et al. 2024).
enum class WordPattern { gpt2, llama3, qwen2 };

/// The regular expression of Qwen 2's, whose older files do not have it.
inline constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The pattern whose regular expression this is, character for character; none for any other.
std::optional<WordPattern> known_pattern(std::string_view expression);

/// Where the word ends that begins at `begin`, which is below the text's size. Each of the patterns matches at every place of
/// every text, so words follow one another without gaps.
/// Cost: each byte of a text is looked at a bounded number of times, but for runs of white space: \s+(?!\S) looks to the end
/// of the run, from its first byte alone.
size_t word_end(WordPattern pattern, std::string_view text, size_t begin);

}  // namespace adjoin::data
