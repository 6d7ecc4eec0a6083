#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/nn/distributed/route.hpp"
#include "adjoin/partition/layout.hpp"
#include "adjoin/rules/cost.hpp"

// How an operation of LibTorch runs on global tensors. A rule says which ways there are, each with the layouts that it reads and
// makes: a pure function of the operands' layouts and the other arguments, so all workers take the same way without a message.
// Gradients need no rules: a way is moves and local operations, of which each has its own.

namespace adjoin::rules {

using torch::jit::Stack;
using Arguments = c10::ArrayRef<c10::IValue>;

/// A tensor that an operation gets.
struct Operand {
  Layout layout;             ///< of a plain tensor: everywhere
  size_t argument;           ///< the place of the argument that it is, or that is the list in which it is
  bool is_constant = false;  ///< plain and without gradient, so all have it and nothing goes back
};

/// An operation and its arguments: what is alike on all workers, and what is called `home` here.
struct Operation {
  const c10::OperatorHandle& handle;
  Arguments arguments;
  std::vector<Operand>
      operands;  ///< the tensors, without undefined ones and plain numbers, in the order of the arguments
  GlobalGrid& home;
  bool is_in_place = false;  ///< writes to its first argument, and returns it

  const std::string& name() const { return handle.schema().name(); }
  /// The operand that is an argument; none where it is undefined or a number.
  const Operand* operand(size_t argument) const;
  size_t place_of(const Operand* operand) const { return static_cast<size_t>(operand - operands.data()); }
  const std::vector<int64_t>& shape(size_t argument) const;
  int64_t integer(size_t argument) const { return arguments[argument].toInt(); }
  std::vector<int64_t> integers(size_t argument) const;
  /// A dim of a tensor of so many dims, from 0 on.
  int64_t dim(size_t argument, int64_t dims) const;
};

/// One way to run an operation.
struct Way {
  std::vector<Layout> reads;  ///< of each operand
  std::vector<Layout> makes;  ///< of each tensor of the result; partial where workers make summands
  std::vector<std::pair<size_t, c10::IValue>> arguments = {};  ///< this worker's, such as the sizes of its piece
  /// Runs in place of the operation, on arguments with the pieces that are read, and returns the pieces that are made.
  std::function<std::vector<at::Tensor>(Arguments arguments)> kernel = {};
  double work = 0;  ///< elements that a worker computes
  /// Moves that the kernel makes itself: halos, statistics. They count in estimates, not in the choice.
  std::vector<std::pair<Layout, Layout>> moves = {};
  bool is_everywhere = false;  ///< the kernel makes one tensor, and ranks outside the grid take part in it
};

/// Returns the ways, from which the one of least cost is taken, the first of equals; none where it has no rule for these arguments.
using Rule = std::vector<Way> (*)(const Operation& operation);

/// The rules of a group: the names of operators, "add.Tensor", and their rule.
struct Named {
  std::vector<const char*> operators;
  Rule rule;
  bool is_product = false;  ///< computes in 16 bits under autocast
};
using Table = std::vector<Named>;

Table product_rules();
Table view_rules();
Table part_rules();
Table reduction_rules();
Table row_rules();
Table layer_rules();
Table norm_rules();
Table random_rules();
Table recurrent_rules();
Table window_rules();
Table fourier_rules();
std::vector<Way> pointwise(const Operation& operation);

/// The way of a rule that costs least, by the elements that move and are computed; none where it has none.
std::optional<Way> least_way(const Operation& operation, Rule rule);

struct Known {
  Rule rule = nullptr;
  bool is_product = false;
};
/// The rule of an operator; null where it has none.
const Known* known_rule(const c10::OperatorHandle& handle);

/// Whether LibTorch computes an operator by calls of others, its parts.
bool is_composite(const c10::OperatorHandle& handle);
/// Carries out an operation below our key: its parts are intercepted one by one.
void run_parts(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// What the dims of an operation's tensors have in common: dims of one label are cut alike.
struct Labels {
  static constexpr int kOne = -1;                   ///< of a dim of size 1 that is broadcast, or made
  std::vector<std::vector<int>> operands, results;  ///< the label of each dim
  std::set<int> whole = {};  ///< labels of dims that are not cut; any other label that no result has is summed over
  std::set<size_t> summands = {};  ///< operands that are added to the result
  bool is_linear = false;          ///< in its operands together: where all are partial, the result may be too
  std::optional<size_t> linear_in =
      {};  ///< in this operand, by which it is multiplied: where it is partial, the result is too
  std::map<int, int64_t> sizes = {};  ///< of labels that no operand has
};

/// Dims of one label are cut alike, along axes that cut some operand: a way for each choice. Along other axes an operand that lacks
/// the label is copied, and the result is partial where it lacks the label.
std::vector<Way> labelled(const Labels& labels, const Operation& operation);

/// Labels 0, 1, … for the dims of an operand, beginning with `first`.
std::vector<int> numbered(int64_t dims, int first = 0);
/// The labels of `dims` dims that are broadcast against those of the result, which is `shape`: the last ones.
std::vector<int> broadcast_labels(const std::vector<int64_t>& dims, const std::vector<int64_t>& shape,
                                  const std::vector<int>& labels);
bool is_cut(const Layout& layout, int64_t dim);
/// Whether some of the dims [first, end) is cut.
bool is_cut_in(const Layout& layout, size_t first, size_t end);
/// The layout in which some dims are whole: replicated along the axes that cut them.
Layout whole_along(const Layout& layout, const std::vector<int64_t>& dims);
/// The same kinds and, for each dim of the new shape, the cut of dim `from[dim]`, or none for -1.
Layout reshaped(const Layout& layout, std::vector<int64_t> shape, const std::vector<int64_t>& from);
/// x with the mask of the next random operation of the step, of which this worker has the piece of a layout. Throws: InvalidArgument
/// where no step was begun
at::Tensor dropped(const at::Tensor& x, const Layout& layout, double p, const std::string& name, GlobalGrid& home);
/// A random operation as one that draws from a generator which has the same numbers on all workers of a grid: by the step and the
/// number of random operations since it began. Changes the arguments on the stack accordingly; none where it takes no generator.
std::optional<c10::OperatorHandle> with_generator(const c10::OperatorHandle& handle, torch::jit::Stack& stack,
                                                  GlobalGrid& home);
/// Carries out a random operation on plain tensors so that all workers draw the same (DrawsAlike).
void draw_alike(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack);
/// The moves of two sums over dims of x, forward and back: none where these dims are whole.
std::vector<std::pair<Layout, Layout>> sums_over(const Layout& x, const std::vector<int64_t>& dims);
/// The ways, in which a worker whose result has no elements does not call LibTorch, some of whose operations fail then.
std::vector<Way> without_empty_calls(std::vector<Way> ways, const Operation& operation);
/// One way, which reads each operand as it lies.
std::vector<Way> as_it_lies(const Operation& operation, std::vector<Layout> makes);

}  // namespace adjoin::rules
