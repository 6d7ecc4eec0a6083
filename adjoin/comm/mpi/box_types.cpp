#include "adjoin/comm/mpi/box_types.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "adjoin/base/box.hpp"
#include "adjoin/comm/mpi/shared.hpp"

namespace adjoin::mpi {

namespace {

/// A box within a larger one.
struct Part {
  int64_t offset;
  Box box;
};

/// Boxes that make up elements [begin, end) of a box, in order: the end of a row, whole rows, the beginning of one, and
/// the same of rows of rows.
void add_parts(const Box& box, int64_t offset, int64_t begin, int64_t end, std::vector<Part>& parts) {
  if (begin == end) return;
  const int64_t total = std::accumulate(box.sizes.begin(), box.sizes.end(), int64_t{1}, std::multiplies<>());
  if (begin == 0 && end == total) return parts.push_back({offset, box});
  const Box row{{box.sizes.begin() + 1, box.sizes.end()}, {box.strides.begin() + 1, box.strides.end()}};
  const int64_t stride = box.strides[0], row_size = total / box.sizes[0];
  if (begin / row_size == (end - 1) / row_size) {
    const int64_t first = begin / row_size;
    return add_parts(row, offset + first * stride, begin - first * row_size, end - first * row_size, parts);
  }
  const int64_t first = (begin + row_size - 1) / row_size, last = end / row_size;
  if (begin < first * row_size)
    add_parts(row, offset + (first - 1) * stride, begin - (first - 1) * row_size, row_size, parts);
  Box rows = box;
  rows.sizes[0] = last - first;
  if (last > first) parts.push_back({offset + first * stride, rows});
  add_parts(row, offset + last * stride, 0, end - last * row_size, parts);
}

MPI_Datatype make_type(ElementType element, const Box& box) {
  size_t dims = box.sizes.size();
  const bool has_runs = dims > 0 && box.strides.back() == 1;
  const int run = has_runs ? static_cast<int>(box.sizes[--dims]) : 1;
  MPI_Datatype type, row;
  check_mpi(MPI_Type_contiguous(run, mpi_type(element), &type), "MPI_Type_contiguous");
  while (dims-- > 0) {
    row = type;
    const MPI_Aint stride = box.strides[dims] * size_of(element);
    check_mpi(MPI_Type_create_hvector(static_cast<int>(box.sizes[dims]), 1, stride, row, &type),
              "MPI_Type_create_hvector");
    MPI_Type_free(&row);
  }
  return type;
}

MPI_Datatype make_piece(ElementType element, const Box& box, int64_t begin, int64_t count) {
  std::vector<Part> parts;
  add_parts(box, 0, begin, begin + count, parts);
  std::vector<MPI_Datatype> types;
  std::vector<MPI_Aint> offsets;
  for (const Part& part : parts) {
    types.push_back(make_type(element, part.box));
    offsets.push_back(part.offset * size_of(element));
  }
  MPI_Datatype piece = types[0];
  if (types.size() > 1 || offsets[0] != 0) {
    const std::vector<int> ones(types.size(), 1);
    check_mpi(MPI_Type_create_struct(static_cast<int>(types.size()), ones.data(), offsets.data(), types.data(), &piece),
              "MPI_Type_create_struct");
    for (MPI_Datatype& type : types) MPI_Type_free(&type);
  }
  check_mpi(MPI_Type_commit(&piece), "MPI_Type_commit");
  return piece;
}

}  // namespace

BoxTypes::~BoxTypes() {
  if (!mpi_is_alive()) return;
  for (Entry& entry : entries_)
    if (entry.type != MPI_DATATYPE_NULL) MPI_Type_free(&entry.type);
}

MPI_Datatype BoxTypes::type_of(const Message& message, int64_t begin, int64_t count) {
  const ElementType element = message.buffer.type;
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.type != MPI_DATATYPE_NULL && entry.element == element && entry.begin == begin &&
           entry.count == count && std::ranges::equal(entry.sizes, message.sizes) &&
           std::ranges::equal(entry.strides, message.strides);
  });
  if (found != entries_.end()) return found->type;
  const MPI_Datatype type = make_piece(element, merged(message.sizes, message.strides), begin, count);
  Entry& entry = entries_[next_];
  next_ = (next_ + 1) % kMost;
  if (entry.type != MPI_DATATYPE_NULL) MPI_Type_free(&entry.type);  // what uses it still goes on
  entry = {.element = element,
           .begin = begin,
           .count = count,
           .sizes = {message.sizes.begin(), message.sizes.end()},
           .strides = {message.strides.begin(), message.strides.end()},
           .type = type};
  return type;
}

}  // namespace adjoin::mpi
