#pragma once

#include <string>
#include <string_view>

namespace adjoin::data {

/// Whether a path is a folder, or a file by which read_tokenizer knows its folder's tokenizer: a .json, merges.txt, or
/// tokenizer.model.
bool is_tokenizer(const std::string& path);

/// Reads a tokenizer as transformers writes it into a folder: tokenizer.json, or as older versions did vocab.json with
/// merges.txt, vocab.txt, or tokenizer.model, each with the configuration beside it. Where a folder has several, the first of
/// these is read; a path that names one of the files means that one. The result is the content of a tokenizer.json, which also
/// names a decoder's ends of a text (kEndsField), so that no other file is needed.
/// Throws: InvalidArgument where there is none, or one that is damaged, unknown or larger than any tokenizer
std::string read_tokenizer(const std::string& path);

/// Whether the content of a tokenizer.json is a classifier's (WordPiece), not a decoder's.
bool is_classifiers(std::string_view content);

}  // namespace adjoin::data
