#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "adjoin/movement/linear_map.hpp"

/// Programs of which each movement in turn is made a wrong one, for tests of what is to find that.
namespace adjoin::testing {

/// What a program gives on one rank: gradients that are to be those of one worker, its loss, and where it goes on after a refusal,
/// which of several ways to check it have refused it.
struct Gradients {
  std::vector<at::Tensor> of_parameters;
  at::Tensor loss;
  std::vector<bool> refused_by = {};
};

/// How a program is to run: with `replace` in place of its movements, and with what may refuse it, or without.
struct Trial {
  ReplacedMovements::Replace replace;
  bool checks = false;
};

/// Called by all ranks of a world. Where the program does not go on, a refusal is what check_gradients throws.
using GradientsOf = std::function<Gradients(const Communicator& world, const Trial& trial)>;

struct Changes {
  int ranks = 1;
  /// Changes all calls of one line together: for a program that computes segments again in backward.
  bool by_line = false;
};

/// How many programs with one movement changed had other gradients than the right one, and were refused.
struct ChangesTried {
  int64_t wrong = 0, refused = 0;  ///< of those that are wrong
  int64_t refused_with_right_gradients = 0, of_these_with_another_loss = 0;
  int64_t do_not_run = 0;                   ///< since shapes do not fit
  std::map<std::string, int64_t> missed{};  ///< wrong and not refused, by what was changed

  void add(const std::string& name, const std::string& what, bool is_wrong, bool is_refused, bool runs,
           bool has_another_loss);
  /// Prints them.
  void report(const std::string& programs) const;
};

/// Leaves out each movement of a program, applies it to its own result, and puts each other of the same shapes in its place,
/// which are: copy_to, reduce_from and all_sum_reduce; gather_from and all_gather; scatter_to and reduce_scatter; and for a move by
/// layouts those that say another kind along an axis that cuts nothing. With ADJOIN_TEST_VERBOSE prints what each came to.
/// `tried` has one for each way to check.
void try_changes(const std::string& name, const GradientsOf& program, const Changes& changes,
                 std::span<ChangesTried> tried);

}  // namespace adjoin::testing
