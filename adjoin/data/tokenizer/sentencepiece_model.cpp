#include "adjoin/data/tokenizer/sentencepiece_model.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "adjoin/base/error.hpp"

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
    switch (key & 7) {
      case 0:
        value = take_number();
        break;
      case 1:
        take(8);
        break;
      case 2:
        bytes = take(take_number());
        break;
      case 5:
        take(4);
        break;
      default:
        refuse();
    }
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
    if (fields.number != 3) continue;
    require(fields.value >= 1 && fields.value <= 6,
            [&] { return name + ": a piece has the unknown kind " + std::to_string(fields.value); });
    piece.kind = static_cast<SentencepieceModel::Piece::Kind>(fields.value);
  }
  return piece;
}

bool is_boundary(std::string_view text, size_t at) {
  return (static_cast<unsigned char>(text[at]) & 0xc0u) != 0x80u;
}

int64_t characters(std::string_view text) {
  int64_t count = 0;
  for (size_t at = 0; at < text.size(); ++at) count += is_boundary(text, at) ? 1 : 0;
  return count;
}

}  // namespace

SentencepieceModel read_sentencepiece_model(std::string_view content, const std::string& name) {
  SentencepieceModel model;
  for (Fields fields(content, name); fields.next();) {
    if (fields.number == 1) model.pieces.push_back(piece_from(fields.bytes, name));
    if (fields.number == 2)
      for (Fields training(fields.bytes, name); training.next();)
        if (training.number == 3) model.is_bpe = training.value == 2;
    if (fields.number == 3)
      for (Fields normalizer(fields.bytes, name); normalizer.next();)
        if (normalizer.number == 2) model.normalizes = !normalizer.bytes.empty();
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
    using Way = std::tuple<int64_t, size_t, size_t, size_t>;  // characters at the left, ids, and the place of the cut
    std::vector<Way> ways;
    for (size_t at = 1; at < whole.size(); ++at) {
      if (!is_boundary(whole, at)) continue;
      const auto left = ids.find(whole.substr(0, at)), right = ids.find(whole.substr(at));
      if (left != ids.end() && right != ids.end())
        ways.emplace_back(characters(whole.substr(0, at)), left->second, right->second, at);
    }
    std::sort(ways.begin(), ways.end());
    for (const Way& way : ways) {
      const size_t at = std::get<3>(way);
      merges.emplace_back(whole.substr(0, at), whole.substr(at));
    }
  }
  return merges;
}

}  // namespace adjoin::data
