#pragma once

#include <string>
#include <string_view>

namespace adjoin::data {

/// Whether a path is a folder, or a file that identifies a tokenizer for read_tokenizer: a .json, merges.txt, or
/// tokenizer.model.
bool is_tokenizer(const std::string& path);

/// Reads a tokenizer as transformers writes it into a folder: tokenizer.json or, from older versions, vocab.json with
/// merges.txt, vocab.txt, or tokenizer.model, each with the files beside it. tokenizer.json is read if it is there, otherwise
/// the file that transformers' class reads (tokenizer_class.hpp); a path to one of the files means that file. The result is the
/// content of a tokenizer.json, which also names a decoder's ends of a text (kEndsField), so that no other file is needed.
/// Throws: InvalidArgument where there is none, or where it is damaged, unknown or too large for a tokenizer
std::string read_tokenizer(const std::string& path);

/// Whether the content of a tokenizer.json belongs to a classifier (WordPiece) instead of a decoder.
bool is_classifiers(std::string_view content);

}  // namespace adjoin::data
