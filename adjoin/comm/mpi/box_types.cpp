#include "adjoin/comm/mpi/box_types.hpp"

#include <algorithm>

#include "adjoin/base/box.hpp"
#include "adjoin/comm/mpi/reductions.hpp"
#include "adjoin/comm/mpi/shared.hpp"

namespace adjoin::mpi {

namespace {

/// `n` rows, `stride` bytes apart. MPI 3 counts in int: more than `most` are rows of rows, and what remains.
MPI_Datatype repeated(MPI_Datatype row, int64_t n, MPI_Aint stride, int64_t most) {
  MPI_Datatype all;
  if (n <= most) {
    check_mpi(MPI_Type_create_hvector(static_cast<int>(n), 1, stride, row, &all), "MPI_Type_create_hvector");
    return all;
  }
  const int64_t rest = n % most;
  MPI_Datatype block = repeated(row, most, stride, most);
  MPI_Datatype parts[] = {repeated(block, n / most, most * stride, most),
                          repeated(row, std::max<int64_t>(rest, 1), stride, most)};
  const int ones[] = {1, 1};
  const MPI_Aint places[] = {0, (n - rest) * stride};
  check_mpi(MPI_Type_create_struct(rest > 0 ? 2 : 1, ones, places, parts, &all), "MPI_Type_create_struct");
  for (MPI_Datatype* part : {&block, &parts[0], &parts[1]}) MPI_Type_free(part);
  return all;
}

MPI_Datatype make_type(ElementType element, const Box& box, int64_t most) {
  MPI_Datatype type;
  check_mpi(MPI_Type_contiguous(1, type_of(element), &type), "MPI_Type_contiguous");
  for (size_t dim = box.sizes.size(); dim-- > 0;) {
    MPI_Datatype row = type;
    type = repeated(row, box.sizes[dim], box.strides[dim] * size_of(element), most);
    MPI_Type_free(&row);
  }
  check_mpi(MPI_Type_commit(&type), "MPI_Type_commit");
  return type;
}

}  // namespace

BoxTypes::~BoxTypes() {
  if (!mpi_is_alive()) return;
  for (Entry& entry : entries_)
    if (entry.type != MPI_DATATYPE_NULL) MPI_Type_free(&entry.type);
}

MPI_Datatype BoxTypes::type_of(ElementType element, std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.type != MPI_DATATYPE_NULL && entry.element == element && std::ranges::equal(entry.sizes, sizes) &&
           std::ranges::equal(entry.strides, strides);
  });
  if (found != entries_.end()) return found->type;
  Entry& entry = entries_[next_];
  next_ = (next_ + 1) % kMost;
  if (entry.type != MPI_DATATYPE_NULL) MPI_Type_free(&entry.type);  // what uses it still goes on
  entry = {.element = element,
           .sizes = {sizes.begin(), sizes.end()},
           .strides = {strides.begin(), strides.end()},
           .type = make_type(element, merged(sizes, strides), most_)};
  return entry.type;
}

}  // namespace adjoin::mpi
