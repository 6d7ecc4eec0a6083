#include "adjoin/partition/local_rows.hpp"

#include <memory>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin {

LocalRows::LocalRows(Rows rows, int index) : rows_(std::move(rows)), index_(index) {
  require(index >= 0 && index < rows_->workers(), [&] {
    return "LocalRows: expected a worker from 0 to " + std::to_string(rows_->workers() - 1) + ", got " +
           std::to_string(index);
  });
}

const Rows& LocalRows::all() const {
  require(rows_.has_value(), "LocalRows: expected rows with known samples and tokens, got none");
  return *rows_;
}

int64_t LocalRows::size() const {
  const int64_t of_worker = all().size(index_);
  return part_ ? part_->size() : of_worker;
}

LocalRows LocalRows::part(Range some) const {
  const int64_t before = part_ ? part_->begin : 0;
  LocalRows part = *this;
  part.part_ = Range{before + some.begin, before + some.end};
  return part;
}

std::shared_ptr<const std::vector<TokenPlace>> LocalRows::places(int64_t count) const {
  using Places = std::vector<TokenPlace>;
  if (!rows_) {
    Places samples;
    for (int64_t sample = 0; sample < count; ++sample) samples.push_back({sample, 0});
    return std::make_shared<const Places>(std::move(samples));
  }
  require(size() == count, [&] {
    return "LocalRows: expected " + std::to_string(size()) + " rows, as many as it describes, got " +
           std::to_string(count);
  });
  const std::string key = "places " + std::to_string(index_) +
                          (part_ ? " " + std::to_string(part_->begin) + " " + std::to_string(part_->end) : "");
  return rows_->once(key, [&] {
    Places all = rows_->places(index_);
    if (part_) all = {all.begin() + part_->begin, all.begin() + part_->end};
    return std::make_shared<const Places>(std::move(all));
  });
}

}  // namespace adjoin
