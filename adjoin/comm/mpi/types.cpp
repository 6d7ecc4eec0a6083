#include "adjoin/comm/mpi/types.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "adjoin/base/box.hpp"
#include "adjoin/comm/mpi/shared.hpp"

namespace adjoin::mpi {

namespace {

ElementType type_named(MPI_Datatype type) {
  int t = 0;
  while (type_of(static_cast<ElementType>(t)) != type) ++t;
  return static_cast<ElementType>(t);
}

template <Reduction R>
void reduce_for_mpi(void* in, void* in_out, int* count, MPI_Datatype* mpi_type) {
  const ElementType type = type_named(*mpi_type);
  reduce_into({in_out, *count, type}, {in, *count, type}, R);
}

template <int... R>
std::array<MPI_Op, kReductions> make_ours(std::integer_sequence<int, R...>) {
  std::array<MPI_Op, kReductions> ours;
  (check_mpi(MPI_Op_create(reduce_for_mpi<static_cast<Reduction>(R)>, 1, &ours[R]), "MPI_Op_create"), ...);
  return ours;
}

/// MPI's own operation, in the order of Reduction. There is none for an average, for which pairwise_of gives sum. On bool every
/// operation is "or" or "and".
MPI_Op builtin_of(ElementType type, Reduction reduction) {
  static const MPI_Op on_numbers[kReductions] = {MPI_SUM, MPI_PROD, MPI_MIN,  MPI_MAX, MPI_OP_NULL, MPI_BAND,
                                                 MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
  static const MPI_Op on_bool[kReductions] = {MPI_LOR, MPI_LAND, MPI_LAND, MPI_LOR, MPI_OP_NULL, MPI_LAND,
                                              MPI_LOR, MPI_LXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
  return (type == ElementType::boolean ? on_bool : on_numbers)[static_cast<size_t>(reduction)];
}

/// Whether MPI's own operation means the same as ours: its MIN and MAX may lose a NaN, it does not know 16-bit floats, and its
/// sums of bytes saturate where they are vectorised.
bool has_builtin(ElementType type, Reduction reduction) {
  const bool is_half = type == ElementType::float16 || type == ElementType::bfloat16;
  const bool is_float = type == ElementType::float32 || type == ElementType::float64;
  const bool is_order = reduction == Reduction::min || reduction == Reduction::max;
  const bool may_saturate =
      type == ElementType::uint8 && (reduction == Reduction::sum || reduction == Reduction::product);
  return !is_half && !(is_float && is_order) && !may_saturate;
}

/// `n` rows, `stride` bytes apart. MPI 3 counts in int: where there are more than `most` rows, the type is rows of rows, plus
/// the remaining ones.
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

MPI_Datatype type_of(ElementType type) {
  static const MPI_Datatype types[kElementTypes] = {MPI_C_BOOL,   MPI_UINT8_T, MPI_INT32_T, MPI_INT64_T,
                                                    MPI_UINT16_T, MPI_INT16_T, MPI_FLOAT,   MPI_DOUBLE};
  return types[static_cast<size_t>(type)];
}

MPI_Op operation_of(ElementType type, Reduction reduction) {
  static const auto ours = make_ours(std::make_integer_sequence<int, kReductions>());
  const Reduction pairwise = pairwise_of(reduction);
  return has_builtin(type, pairwise) ? builtin_of(type, pairwise) : ours[static_cast<size_t>(pairwise)];
}

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
  if (entry.type != MPI_DATATYPE_NULL) MPI_Type_free(&entry.type);  // calls that still use it go on
  entry = {.element = element,
           .sizes = {sizes.begin(), sizes.end()},
           .strides = {strides.begin(), strides.end()},
           .type = make_type(element, merged(sizes, strides), most_)};
  return entry.type;
}

}  // namespace adjoin::mpi
