#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace adjoin::data {

/// The bytes of a piece of a byte-level tokenizer, which writes each byte as a visible character; none where a character stands
/// for no byte.
/// Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, whose encoder has this alphabet.
std::optional<std::string> bytes_of_piece(std::string_view piece);

/// The piece for a byte in a tokenizer of characters: "<0x0A>".
std::string byte_piece(size_t byte);

}  // namespace adjoin::data
