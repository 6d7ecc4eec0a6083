#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace adjoin::data {

/// What a tokenizer.model of the sentencepiece library says, as far as byte-pair encoding needs it.
struct SentencepieceModel {
  struct Piece {
    enum class Kind { normal = 1, unknown, control, user_defined, unused, byte };
    std::string text;
    Kind kind = Kind::normal;
  };
  std::vector<Piece> pieces;  // by id
  bool is_bpe = false;
  bool normalizes = false;  // by a table of its own, "Precompiled"
};

/// Reads the file's content, a protocol buffer, of which nothing is believed before it is checked.
/// Throws: InvalidArgument that begins with `name`
/// Source: sentencepiece_model.proto of the library; the encoding of protocol buffers, protobuf.dev.
SentencepieceModel read_sentencepiece_model(std::string_view content, const std::string& name);

/// The pairs that join, the soonest first: each piece is joined of any two others that make it up, in the order of ids, as
/// transformers has it.
std::vector<std::pair<std::string, std::string>> merges_of(const SentencepieceModel& model);

}  // namespace adjoin::data
