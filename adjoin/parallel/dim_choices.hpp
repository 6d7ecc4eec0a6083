#pragma once

#include <map>
#include <set>
#include <vector>

#include "adjoin/rules/noted.hpp"

namespace adjoin::parallel {

/// How a dim may be cut: as `parts` parts one after another, each in units.
struct DimChoice {
  int64_t parts = 1, unit = 1;
};

/// What a module's operations say of dims of a size: views that part them into heads or join heads, and splits into queries, keys and
/// values. It is only a proposal: cuts that do not fit an operation cost moves.
class DimChoices {
 public:
  explicit DimChoices(const rules::Noted& noted);
  /// In the order in which they are taken where they cost the same: one part before several, units before none.
  std::vector<DimChoice> of(int64_t size) const;

 private:
  /// One dim is the same elements as some others.
  void add_view(const std::vector<int64_t>& from, const std::vector<int64_t>& to);

  std::map<int64_t, std::set<int64_t>> parts_, units_;  // by size
};

}  // namespace adjoin::parallel
