#include "adjoin/data/token_store.hpp"

#include <limits>
#include <utility>

namespace adjoin::data {

std::vector<int64_t> TokenStore::ids(int64_t sample) const {
  const auto first = static_cast<size_t>(begin(sample)), count = static_cast<size_t>(length(sample));
  if (arrays_.wide.empty()) {
    const auto ids = arrays_.narrow.subspan(first, count);
    return {ids.begin(), ids.end()};
  }
  const auto ids = arrays_.wide.subspan(first, count);
  return {ids.begin(), ids.end()};
}

std::vector<int64_t> TokenStore::lengths() const {
  std::vector<int64_t> lengths(static_cast<size_t>(size()));
  for (int64_t sample = 0; sample < size(); ++sample) lengths[static_cast<size_t>(sample)] = length(sample);
  return lengths;
}

void TokenStoreBuilder::add(std::span<const int64_t> ids, int64_t label) {
  if (narrow_)
    held_.narrow.insert(held_.narrow.end(), ids.begin(), ids.end());
  else
    held_.wide.insert(held_.wide.end(), ids.begin(), ids.end());
  held_.begins.push_back(held_.begins.back() + std::ssize(ids));
  held_.labels.push_back(static_cast<int32_t>(label));
}

TokenStore TokenStoreBuilder::finish() {
  held_.narrow.shrink_to_fit();
  held_.wide.shrink_to_fit();
  const auto held = std::make_shared<const Held>(std::exchange(held_, {}));
  return TokenStore({held->narrow, held->wide, held->begins, held->labels}, held);
}

TokenStore selected(const TokenStore& store, std::span<const int64_t> samples) {
  const bool wide = !store.arrays().wide.empty();
  TokenStoreBuilder builder(wide ? std::numeric_limits<int64_t>::max() : 0);
  for (const int64_t sample : samples) builder.add(store.ids(sample), store.label(sample));
  return builder.finish();
}

}  // namespace adjoin::data
