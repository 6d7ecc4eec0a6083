#include "adjoin/comm/algorithm/patterns.hpp"
#include "adjoin/comm/algorithm/programs.hpp"

namespace adjoin::algorithm {

Program naive_reduce(const Request& q, int rank) {
  const Slice given{Region::input, 0, q.count}, result{Region::output, 0, q.count};
  Program program;
  if (rank == q.root) program.before.push_back(copy_of(given, result));
  add_star(program, q, rank, Transfer::Kind::receive_and_reduce, given, [&](int) { return result; });
  return program;
}

Program tree_reduce(const Request& q, int rank) {
  const int me = q.shifted(rank);
  const bool is_leaf = me % 2 == 1 || me + 1 >= q.size;
  const Slice input{Region::input, 0, q.count};
  const Slice sum = me == 0 ? Slice{Region::output, 0, q.count} : is_leaf ? input : Slice{Region::scratch, 0, q.count};
  Program program;
  program.scratch = sum.region == Region::scratch ? q.count : 0;
  if (sum != input) program.before.push_back(copy_of(input, sum));
  add_tree_to_root(program, q, rank, Transfer::Kind::receive_and_reduce, [&](int) { return sum; });
  return program;
}

}  // namespace adjoin::algorithm
