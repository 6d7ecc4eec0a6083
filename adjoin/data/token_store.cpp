#include "adjoin/data/token_store.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace adjoin::data {
namespace {

/// Removes a part of mapped ids, and what the system has mapped around it, from this process's memory. If it is used again, it
/// comes from the system's cache or the disk.
template <class Number>
void forget(std::span<const Number> all, size_t first, size_t count) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t around = std::max<uintptr_t>(page, 1 << 16);  // Linux maps this much at a time
  const auto place = [&](size_t i) { return reinterpret_cast<uintptr_t>(all.data() + i); };
  const uintptr_t begin = std::max(place(first) / around * around, place(0) / page * page);
  const uintptr_t end = std::min((place(first + count) + around - 1) / around * around, place(all.size()));
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

template <class Number>
std::vector<int64_t> copied(std::span<const Number> all, size_t first, size_t count, bool forgets) {
  const auto ids = all.subspan(first, count);
  std::vector<int64_t> copy(ids.begin(), ids.end());
  if (forgets) forget(all, first, count);
  return copy;
}

}  // namespace

std::vector<int64_t> TokenStore::ids(int64_t sample) const {
  return run(begin(sample), length(sample), false);
}

std::vector<int64_t> TokenStore::ids(int64_t sample, int64_t first, int64_t count) const {
  return run(begin(sample) + first, count, arrays_.mapped);
}

std::vector<int64_t> TokenStore::run(int64_t first, int64_t count, bool forgets) const {
  const auto from = static_cast<size_t>(first), many = static_cast<size_t>(count);
  return arrays_.wide.empty() ? copied(arrays_.narrow, from, many, forgets) : copied(arrays_.wide, from, many, forgets);
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
