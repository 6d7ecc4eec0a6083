#include "adjoin/data/tokenizer/sentencepiece_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/data/tokenizer/character_classes.hpp"

namespace adjoin::data {
namespace {

/// The fields of a protocol buffer message, one after another.
class Fields {
 public:
  Fields(std::string_view message, const std::string& name) : rest_(message), name_(name) {}

  bool next() {
    if (rest_.empty()) return false;
    const uint64_t key = take_number();
    number = key >> 3;
    bytes = {};
    value = 0;
    const uint64_t kind = key & 7;
    if (kind == 0)
      value = take_number();
    else if (kind == 1 || kind == 5)
      bytes = take(kind == 1 ? 8 : 4);
    else if (kind == 2)
      bytes = take(take_number());
    else
      refuse();
    return true;
  }

  uint64_t number = 0;
  uint64_t value = 0;      // of a numeric field
  std::string_view bytes;  // of a text or message field

 private:
  [[noreturn]] void refuse() const { throw InvalidArgument(name_ + ": is not a sentencepiece model, or is damaged"); }

  std::string_view take(uint64_t size) {
    if (size > rest_.size()) refuse();
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  uint64_t take_number() {
    uint64_t result = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      result |= static_cast<uint64_t>(byte & 0x7fu) << shift;
      if (byte < 0x80) return result;
    }
    refuse();
  }

  std::string_view rest_;
  const std::string& name_;
};

SentencepieceModel::Piece piece_from(std::string_view message, const std::string& name) {
  SentencepieceModel::Piece piece;
  for (Fields fields(message, name); fields.next();) {
    if (fields.number == 1) {
      constexpr size_t kLongest = 512;  // bytes; by default the library learns pieces of at most 16 characters
      require(fields.bytes.size() <= kLongest, [&] {
        return name + ": a piece has " + std::to_string(fields.bytes.size()) + " bytes, expected at most " +
               std::to_string(kLongest);
      });
      piece.text = fields.bytes;
    }
    if (fields.number == 2 && fields.bytes.size() == sizeof piece.score)
      std::memcpy(&piece.score, fields.bytes.data(), sizeof piece.score);
    if (fields.number != 3) continue;
    require(fields.value >= 1 && fields.value <= 6,
            [&] { return name + ": a piece has the unknown kind " + std::to_string(fields.value); });
    piece.kind = static_cast<SentencepieceModel::Piece::Kind>(fields.value);
  }
  return piece;
}

/// Reads a message's settings; a later field replaces an earlier one.
void read_training(std::string_view message, const std::string& name, SentencepieceModel& model) {
  for (Fields fields(message, name); fields.next();) {
    const auto id = static_cast<int64_t>(static_cast<int32_t>(fields.value));
    if (fields.number == 3) model.is_bpe = fields.value == 2;
    if (fields.number == 35) model.byte_fallback = fields.value != 0;
    if (fields.number == 40) model.unknown_id = id;
    if (fields.number == 41) model.beginning_id = id;
    if (fields.number == 42) model.end_id = id;
    const auto text_or = [&](const char* otherwise) {
      return fields.bytes.empty() ? std::string(otherwise) : std::string(fields.bytes);
    };
    if (fields.number == 45) model.unknown = text_or("<unk>");
    if (fields.number == 46) model.beginning = text_or("<s>");
    if (fields.number == 47) model.end = text_or("</s>");
  }
}

void read_normalizer(std::string_view message, const std::string& name, SentencepieceModel& model) {
  for (Fields fields(message, name); fields.next();) {
    if (fields.number == 2) model.normalizes = !fields.bytes.empty();
    if (fields.number == 3) model.adds_dummy_prefix = fields.value != 0;
    if (fields.number == 4) model.removes_extra_spaces = fields.value != 0;
    if (fields.number == 5) model.escapes_spaces = fields.value != 0;
  }
}

}  // namespace

SentencepieceModel read_sentencepiece_model(std::string_view content, const std::string& name) {
  SentencepieceModel model;
  for (Fields fields(content, name); fields.next();) {
    if (fields.number == 1) model.pieces.push_back(piece_from(fields.bytes, name));
    if (fields.number == 2) read_training(fields.bytes, name, model);
    if (fields.number == 3) read_normalizer(fields.bytes, name, model);
  }
  require(!model.pieces.empty(), [&] { return name + ": is not a sentencepiece model, or is empty"; });
  return model;
}

std::vector<std::pair<std::string, std::string>> merges_of(const SentencepieceModel& model) {
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < model.pieces.size(); ++id) ids[model.pieces[id].text] = id;
  std::vector<std::pair<std::string, std::string>> merges;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const std::string_view whole = model.pieces[id].text;
    if (ids[whole] != id) continue;
    using Way = std::tuple<size_t, size_t, size_t, size_t>;  // characters at the left, ids, and the place of the cut
    std::vector<Way> ways;
    for (size_t at = 1; at < whole.size(); ++at) {
      if (!begins_character(whole[at])) continue;
      const auto left = ids.find(whole.substr(0, at)), right = ids.find(whole.substr(at));
      if (left != ids.end() && right != ids.end())
        ways.emplace_back(characters_in(whole.substr(0, at)), left->second, right->second, at);
    }
    std::sort(ways.begin(), ways.end());
    for (const Way& way : ways) {
      const size_t at = std::get<3>(way);
      merges.emplace_back(whole.substr(0, at), whole.substr(at));
    }
  }
  return merges;
}

std::vector<std::pair<std::string, std::string>> merges_by_score(const SentencepieceModel& model,
                                                                 const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, size_t> normal;
  for (size_t id = 0; id < names.size(); ++id)
    if (model.pieces[id].kind == SentencepieceModel::Piece::Kind::normal && !names[id].empty()) normal[names[id]] = id;
  using Merge =
      std::tuple<float, size_t, std::string_view, std::string_view>;  // minus the score, id, and the two pieces
  std::vector<Merge> merges;
  for (const auto& [whole, id] : normal) {
    const float score = model.pieces[id].score;
    for (size_t at = 1; at < whole.size(); ++at) {
      const std::string_view left = whole.substr(0, at), right = whole.substr(at);
      if (begins_character(whole[at]) && normal.contains(left) && normal.contains(right))
        merges.emplace_back(std::isfinite(score) ? -score : 0.0f, id, left, right);
    }
  }
  std::sort(merges.begin(), merges.end());
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [score, id, left, right] : merges) pairs.emplace_back(left, right);
  return pairs;
}

}  // namespace adjoin::data
