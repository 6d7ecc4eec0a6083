#include "adjoin/partition/local_token_rows.hpp"

#include <memory>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin {

LocalTokenRows::LocalTokenRows(TokenRows rows, int index) : rows_(std::move(rows)), index_(index) {
  require(index >= 0 && index < rows_->workers(), [&] {
    return "LocalTokenRows: expected a worker from 0 to " + std::to_string(rows_->workers() - 1) + ", got " +
           std::to_string(index);
  });
}

const TokenRows& LocalTokenRows::all() const {
  require(rows_.has_value(), "LocalTokenRows: expected rows with known samples and tokens, got none");
  return *rows_;
}

int64_t LocalTokenRows::size() const {
  const int64_t of_worker = all().size(index_);
  return part_ ? part_->size() : of_worker;
}

LocalTokenRows LocalTokenRows::part(Range some) const {
  const int64_t before = part_ ? part_->begin : 0;
  LocalTokenRows part = *this;
  part.part_ = Range{before + some.begin, before + some.end};
  return part;
}

std::shared_ptr<const std::vector<TokenPlace>> LocalTokenRows::places(int64_t count) const {
  using Places = std::vector<TokenPlace>;
  if (!rows_) {
    Places samples;
    for (int64_t sample = 0; sample < count; ++sample) samples.push_back({sample, 0});
    return std::make_shared<const Places>(std::move(samples));
  }
  require(size() == count, [&] {
    return "LocalTokenRows: expected " + std::to_string(size()) + " rows, as many as it describes, got " +
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
