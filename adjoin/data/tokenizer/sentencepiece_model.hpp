#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace adjoin::data {

/// The content of a sentencepiece tokenizer.model that byte-pair encoding needs.
struct SentencepieceModel {
  struct Piece {
    enum class Kind { normal = 1, unknown, control, user_defined, unused, byte };
    std::string text;
    Kind kind = Kind::normal;
  };
  std::vector<Piece> pieces;  // by id
  bool is_bpe = false;
  bool normalizes = false;  // by a table in the file, "Precompiled"
};

/// Reads the file's content, a protocol buffer. Everything is checked before it is used.
/// Throws: InvalidArgument that begins with `name`
/// Source: sentencepiece_model.proto of the library; the encoding of protocol buffers, protobuf.dev.
SentencepieceModel read_sentencepiece_model(std::string_view content, const std::string& name);

/// The pairs to join, the first ones first: for each piece, in the order of ids, all pairs of pieces that make it up, as in
/// transformers.
std::vector<std::pair<std::string, std::string>> merges_of(const SentencepieceModel& model);

}  // namespace adjoin::data
