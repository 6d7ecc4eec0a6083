#include "adjoin/lab/measure/operation.hpp"

#include <string>

#include "adjoin/base/error.hpp"

namespace adjoin::measure {

std::string_view name(Operation operation) {
  constexpr std::string_view names[] = {"all_reduce", "broadcast",      "reduce",     "gather", "scatter",
                                        "all_gather", "reduce_scatter", "all_to_all", "barrier"};
  return names[static_cast<int>(operation)];
}

Operation operation_named(std::string_view wanted) {
  std::string known;
  for (const Operation operation : kOperations) {
    if (name(operation) == wanted) return operation;
    known += (known.empty() ? "" : ", ") + std::string(name(operation));
  }
  throw InvalidArgument("expected an operation among " + known + ", got '" + std::string(wanted) + "'");
}

int64_t least_traffic(Operation operation, int ranks, int64_t bytes) {
  switch (operation) {
    case Operation::all_reduce:
    case Operation::all_to_all:
      return 2 * ranks * bytes;
    case Operation::broadcast:
      return ranks * bytes;
    case Operation::gather:
    case Operation::scatter:
      return 2 * bytes;
    case Operation::reduce:
    case Operation::all_gather:
    case Operation::reduce_scatter:
      return (ranks + 1) * bytes;
    case Operation::barrier:
      return 0;
  }
  return 0;
}

}  // namespace adjoin::measure
