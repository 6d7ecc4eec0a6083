#include "adjoin/train/storage/read_piece.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "adjoin/base/checksum.hpp"
#include "adjoin/train/storage/piece_runs.hpp"

namespace adjoin::train {
namespace {

constexpr int64_t kLargestGap = 64 << 10;  // bytes
constexpr int64_t kReadAtOnce = 1 << 20;   // bytes, which stay in a cache until they are counted

/// Reads runs, in the order in which they are given, into a tensor.
class Reading {
 public:
  Reading(const SafetensorsFile& file, const StoredTensor& stored, const at::Tensor& into, const Range& counted)
      : file_(file),
        stored_(stored),
        into_(static_cast<char*>(into.mutable_data_ptr())),
        size_(static_cast<int64_t>(into.element_size())),
        counted_(counted) {}

  void add(const Run& run) {
    const int64_t end = runs_.empty() ? 0 : runs_.back().global + runs_.back().count;
    const bool joins = !runs_.empty() && run.global >= end && (run.global - end) * size_ < kLargestGap &&
                       (run.global + run.count - runs_.front().global) * size_ <= kReadAtOnce;
    if (!joins) flush();
    runs_.push_back(run);
  }
  void flush() {
    if (runs_.size() == 1)
      read_alone(runs_.front());
    else if (!runs_.empty())
      read_together();
    runs_.clear();
  }
  uint64_t sum() const { return sum_; }

 private:
  int64_t place_of(int64_t global) const { return stored_.begin + global * size_; }

  void read_alone(const Run& run) {
    const int64_t at_once = kReadAtOnce / size_;
    for (int64_t done = 0; done < run.count; done += at_once) {
      const Run part{run.local + done, run.global + done, std::min(at_once, run.count - done)};
      file_.read_bytes(into_ + part.local * size_, part.count * size_, place_of(part.global));
      count(part);
    }
  }
  void read_together() {
    const int64_t begin = runs_.front().global, bytes = (runs_.back().global + runs_.back().count - begin) * size_;
    buffer_.resize(static_cast<size_t>(std::max(bytes, std::ssize(buffer_))));
    file_.read_bytes(buffer_.data(), bytes, place_of(begin));
    for (const Run& run : runs_) {
      std::memcpy(into_ + run.local * size_, buffer_.data() + (run.global - begin) * size_,
                  static_cast<size_t>(run.count * size_));
      count(run);
    }
  }
  void count(const Run& run) {
    const int64_t begin = std::max(run.local, counted_.begin), end = std::min(run.local + run.count, counted_.end);
    if (begin < end) sum_ += checksum(into_ + begin * size_, end - begin, size_, run.global + begin - run.local);
  }

  const SafetensorsFile& file_;
  const StoredTensor& stored_;
  char* into_;
  int64_t size_;
  Range counted_;
  std::vector<Run> runs_;
  std::vector<char> buffer_;
  uint64_t sum_ = 0;
};

}  // namespace

uint64_t read_piece(const SafetensorsFile& file, const nn::Parameter& piece) {
  const StoredTensor& stored = file.find(piece.name);
  const bool fits = piece.tensor.scalar_type() == stored.dtype && piece.tensor.is_contiguous();
  const at::Tensor into = fits ? piece.tensor.detach() : at::empty(piece.tensor.sizes(), stored.dtype);
  Reading reading(file, stored, into, share_of(piece));
  visit_runs(piece, {0, into.numel()}, [&](const Run& run) { reading.add(run); });
  reading.flush();
  file.check_booleans(into, piece.name);
  if (!fits) piece.tensor.copy_(into);
  return reading.sum();
}

}  // namespace adjoin::train
