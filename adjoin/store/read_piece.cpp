#include "adjoin/store/read_piece.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "adjoin/base/checksum.hpp"
#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/store/piece_runs.hpp"

namespace adjoin::train {
namespace {

constexpr int64_t kLargestGap = 64 << 10;  // bytes
constexpr int64_t kReadAtOnce = 1 << 20;   // bytes that stay in a cache until they are counted

/// Reads runs into a tensor, in the given order.
class Reading {
 public:
  /// `first`: the global place of the first element in the file.
  Reading(const SafetensorsFile& file, const StoredTensor& stored, const at::Tensor& into, const Range& counted,
          int64_t first = 0)
      : file_(file),
        begin_(stored.begin - first * static_cast<int64_t>(into.element_size())),
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
  int64_t place_of(int64_t global) const { return begin_ + global * size_; }

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
  int64_t begin_;
  char* into_;
  int64_t size_;
  Range counted_;
  std::vector<Run> runs_;
  std::vector<char> buffer_;
  uint64_t sum_ = 0;
};

/// What is read from a file, of this type: the tensor's own memory where it fits.
at::Tensor memory_for(const at::Tensor& tensor, at::ScalarType stored) {
  const bool fits = tensor.scalar_type() == stored && tensor.is_contiguous() && tensor.is_cpu();
  return fits ? tensor.detach() : at::empty(tensor.sizes(), stored);
}

/// The elements of a run that are in a range of the global tensor.
Run within(const Run& run, const Range& range) {
  const int64_t begin = std::max(run.global, range.begin), end = std::min(run.global + run.count, range.end);
  return {run.local + begin - run.global, begin, std::max<int64_t>(0, end - begin)};
}

/// Reads the elements of the piece that are in a part. `range`: the place of the part in the stacked tensor. `into` has the
/// shape of the piece and the type of the part.
void read_part(const StackedTensor::Part& part, const Range& range, const nn::Parameter& piece,
               const at::Tensor& into) {
  const Range all{0, into.numel()};
  if (!part.is_transposed) {
    Reading reading(*part.file, part.file->find(part.name), into, {}, range.begin);
    visit_runs(piece, all, [&](const Run& run) {
      const Run here = within(run, range);
      if (here.count > 0) reading.add(here);
    });
    return reading.flush();
  }
  const at::Tensor whole = part.file->read(part.name).t().contiguous();
  const auto size = static_cast<int64_t>(whole.element_size());
  const auto* from = static_cast<const char*>(whole.const_data_ptr());
  auto* to = static_cast<char*>(into.mutable_data_ptr());
  visit_runs(piece, all, [&](const Run& run) {
    const Run here = within(run, range);
    std::memcpy(to + here.local * size, from + (here.global - range.begin) * size,
                static_cast<size_t>(here.count * size));
  });
}

}  // namespace

std::vector<int64_t> StackedTensor::Part::shape() const {
  std::vector<int64_t> shape = file->shape(name);
  if (is_transposed) std::reverse(shape.begin(), shape.end());
  return shape;
}

at::ScalarType StackedTensor::dtype() const {
  at::ScalarType type = parts.front().dtype();
  for (const Part& part : parts) type = c10::promoteTypes(type, part.dtype());
  return type;
}

std::vector<int64_t> StackedTensor::shape() const {
  std::vector<int64_t> shape = parts.front().shape();
  for (size_t i = 1; i < parts.size(); ++i) {
    std::vector<int64_t> other = parts[i].shape();
    require(
        !shape.empty() && other.size() == shape.size() && std::equal(shape.begin() + 1, shape.end(), other.begin() + 1),
        [&] { return "'" + parts[i].name + "' cannot be stacked under '" + parts.front().name + "'"; });
    shape[0] += other[0];
  }
  return shape;
}

void read_piece(const StackedTensor& stacked, const nn::Parameter& piece) {
  check_plain("load_state", piece.tensor);
  const at::Tensor whole = memory_for(piece.tensor, stacked.dtype());
  int64_t first = 0;
  for (const StackedTensor::Part& part : stacked.parts) {
    const Range range{first, first + c10::multiply_integers(part.shape())};
    first = range.end;
    if (part.dtype() == whole.scalar_type()) {
      read_part(part, range, piece, whole);
      continue;
    }
    const at::Tensor in_file = at::empty(whole.sizes(), part.dtype());
    read_part(part, range, piece, in_file);
    const at::Tensor from = in_file.view(-1), to = whole.view(-1);
    visit_runs(piece, {0, whole.numel()}, [&](const Run& run) {
      const Run here = within(run, range);
      if (here.count > 0) to.narrow(0, here.local, here.count).copy_(from.narrow(0, here.local, here.count));
    });
  }
  if (!whole.is_alias_of(piece.tensor)) piece.tensor.copy_(whole);
}

at::Tensor read(const StackedTensor& stacked) {
  std::vector<at::Tensor> rows;
  for (const StackedTensor::Part& part : stacked.parts) {
    const at::Tensor stored = part.file->read(part.name);
    rows.push_back(part.is_transposed ? stored.t() : stored);
  }
  return rows.size() == 1 ? rows.front().contiguous() : at::cat(rows);
}

uint64_t read_piece(const SafetensorsFile& file, const nn::Parameter& given) {
  const StoredTensor& stored = file.find(given.name);
  nn::Parameter piece = given;
  const at::Tensor values = piece.tensor = plain("load_state", given.tensor.detach());
  piece = piece_in_file(piece, stored.dtype);
  const at::Tensor into = memory_for(piece.tensor, stored.dtype);
  Reading reading(file, stored, into, share_of(piece));
  visit_runs(piece, {0, into.numel()}, [&](const Run& run) { reading.add(run); });
  reading.flush();
  file.check_booleans(into, piece.name);
  if (!into.is_alias_of(piece.tensor)) piece.tensor.copy_(into);
  if (!values.is_alias_of(given.tensor)) given.tensor.detach().copy_(values);
  return reading.sum();
}

}  // namespace adjoin::train
