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
    float score = 0;
    Kind kind = Kind::normal;
  };
  std::vector<Piece> pieces;  // by id
  bool is_bpe = false;
  bool byte_fallback = false;
  int64_t unknown_id = 0, beginning_id = 1, end_id = 2;  // -1 where there is none
  std::string unknown = "<unk>", beginning = "<s>", end = "</s>";
  bool normalizes = false;  // by a table in the file, "Precompiled"
  bool adds_dummy_prefix = true, removes_extra_spaces = true, escapes_spaces = true;
};

/// Reads the file's content, a protocol buffer. Everything is checked before it is used.
/// Throws: InvalidArgument that begins with `name`
/// Source: sentencepiece_model.proto of the library; the encoding of protocol buffers, protobuf.dev.
SentencepieceModel read_sentencepiece_model(std::string_view content, const std::string& name);

/// The pairs to join, the first ones first: for each piece, in the order of ids, all pairs of pieces that make it up, as in
/// transformers.
std::vector<std::pair<std::string, std::string>> merges_of(const SentencepieceModel& model);

/// The pairs to join as the library itself ranks them, those of the pieces with the highest scores first; only normal pieces are
/// joined. `names`: the pieces by id, which may be renamed, "" where another piece has the name.
std::vector<std::pair<std::string, std::string>> merges_by_score(const SentencepieceModel& model,
                                                                 const std::vector<std::string>& names);

}  // namespace adjoin::data
