#include "adjoin/data/sequences.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::data {

Sequences::Sequences(DocumentTokens documents, int64_t length, Part part)
    : documents_(std::move(documents)), length_(length) {
  require(length >= 2, "expected a sequence of at least 2 tokens, got a length of " + std::to_string(length));
  const int64_t needed = part == Part::train ? length : 1;
  require(inputs() >= needed, [&] {
    return documents_.name + ": has " + std::to_string(documents_.counts.tokens) + " tokens, but a sequence of " +
           std::to_string(needed) + " and the token after it need " + std::to_string(needed + 1);
  });
}

Sequence Sequences::operator[](int64_t sequence) const {
  require(sequence >= 0 && sequence < size(), [&] {
    return documents_.name + ": there is no sequence " + std::to_string(sequence) + " among " + std::to_string(size());
  });
  const int64_t first = sequence * length_, count = std::min(length_, inputs() - first);
  const std::vector<int64_t> tokens = documents_.tokens.ids(0, first, count + 1);
  const auto foreign = std::find_if(tokens.begin(), tokens.end(), [&](int64_t id) { return id >= documents_.words; });
  require(foreign == tokens.end(), [&] {
    return documents_.name + ": token " + std::to_string(first + (foreign - tokens.begin())) + " is " +
           std::to_string(*foreign) + ", the vocabulary has " + std::to_string(documents_.words);
  });
  Sequence result;
  bool goes_on = false;
  for (auto token = tokens.begin(); token + 1 != tokens.end(); ++token) {
    const bool ends = *token == documents_.end_of_document;
    if (!ends) {
      if (!goes_on) result.lengths.push_back(0);
      ++result.lengths.back();
      result.ids.push_back(*token);
      result.targets.push_back(token[1]);
    }
    goes_on = !ends;
  }
  return result;
}

}  // namespace adjoin::data
