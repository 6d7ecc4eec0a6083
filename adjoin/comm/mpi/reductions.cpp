#include "adjoin/comm/mpi/reductions.hpp"

#include <array>
#include <utility>

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

/// MPI's own operation, by the order of Reduction; of an average there is none, pairwise_of gives sum. On bool all is "or"
/// or "and".
MPI_Op builtin_of(ElementType type, Reduction reduction) {
  static const MPI_Op on_numbers[kReductions] = {MPI_SUM, MPI_PROD, MPI_MIN,  MPI_MAX, MPI_OP_NULL, MPI_BAND,
                                                 MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
  static const MPI_Op on_bool[kReductions] = {MPI_LOR, MPI_LAND, MPI_LAND, MPI_LOR, MPI_OP_NULL, MPI_LAND,
                                              MPI_LOR, MPI_LXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
  return (type == ElementType::boolean ? on_bool : on_numbers)[static_cast<size_t>(reduction)];
}

/// Whether MPI's own operation means the same as ours: its MIN and MAX may lose a NaN, it knows no 16-bit floats, and its
/// sums of bytes saturate where they are vectorised.
bool has_builtin(ElementType type, Reduction reduction) {
  const bool is_half = type == ElementType::float16 || type == ElementType::bfloat16;
  const bool is_float = type == ElementType::float32 || type == ElementType::float64;
  const bool is_order = reduction == Reduction::min || reduction == Reduction::max;
  const bool may_saturate =
      type == ElementType::uint8 && (reduction == Reduction::sum || reduction == Reduction::product);
  return !is_half && !(is_float && is_order) && !may_saturate;
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

}  // namespace adjoin::mpi
