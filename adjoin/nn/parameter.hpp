#pragma once

#include <torch/nn/module.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/movement/check_gradients.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::nn {

/// The initial values of a parameter. Normal numbers depend on seed, full name and global index, never on the layout.
struct Initial {
  enum class Kind : uint8_t { zeros, ones, normal };
  Kind kind = Kind::zeros;
  double deviation = 0;

  static Initial zeros() { return {Kind::zeros, 0}; }
  static Initial ones() { return {Kind::ones, 0}; }
  static Initial normal(double deviation) { return {Kind::normal, deviation}; }
};

/// A parameter, or a buffer such as a running mean: this worker's piece, and the layout of the global tensor.
///
/// Gradients of parameters are summed along the axes on which the layout is copied, and are whole along those on which it
/// is replicated.
struct Parameter {
  std::string name;  ///< the full name: "block0.attention.out.weight"
  at::Tensor tensor;
  Layout layout;
  Grid grid;
  std::optional<Initial> initial;  ///< none where the module that owns it set its values itself
  bool is_buffer = false;
  /// The numbers of rows of the matrices that follow one another in the global tensor, for rules that update whole matrices
  /// (parallel::Rule); the dims after the first are columns. None for vectors, for tables in which rows are looked up, and for
  /// the last layer of a model, whose outputs are scores.
  std::vector<int64_t> matrices = {};
  bool only_in_products = false;  ///< what reads it are products: under autocast, in 16 bits
};

/// The ranks that hold copies of this worker's piece of a parameter, this worker included; none where it holds no piece.
std::vector<int> ranks_of_copies(const Parameter& parameter);
/// Their group; this worker alone if there are no other copies. The first call for a set of ranks makes the group, so all its
/// ranks must make it.
Communicator copies_of(const Parameter& parameter);

/// How a layer lays out a tensor: cut by `split` over one axis of the grid, or replicated along that axis if there is no split.
/// It is copied along all other axes, where each worker uses it for its own part of the data.
/// Throws: InvalidArgument for an axis that the grid lacks, or a split that does not fit
Layout layout_cut_along(const Grid& grid, const std::string& axis, std::vector<int64_t> shape,
                        std::optional<Split> split = {});
/// A tensor that each worker uses for its own part of the work: copied along all axes except the `replicated` ones, along which
/// workers do the same work.
Layout layout_copied_on(const GridShape& grid, std::vector<int64_t> shape,
                        const std::vector<std::string>& replicated = {});

/// Throws: InvalidArgument, with the parameter's name, for a layout that is partial or has a covering split
void check_piece(const std::string& name, const Layout& layout);

/// A layer that owns parameters and buffers which are pieces of global tensors.
///
/// They are NaN (integers 0) until `initialize` is called, so that a forgotten call shows in the first loss. A worker outside
/// of a piece's layout has an empty tensor instead.
class ShardedModule : public torch::nn::Module {
 public:
  /// A piece that the module owns.
  struct Piece {
    Layout layout;
    Grid grid;
    Initial initial;
    std::vector<int64_t> matrices = {};  ///< as Parameter::matrices
    bool only_in_products = false;       ///< as Parameter::only_in_products
  };
  const std::map<std::string, Piece>& pieces() const { return pieces_; }

  /// Computes with another tensor instead of a piece from now on. If that tensor was itself computed, its gradient goes on to
  /// what it was computed from. parameters_of gives the piece as before.
  /// Throws: InvalidArgument where there is no such piece, its class does not allow replacing it, or the shape differs
  void replace_piece(const std::string& name, const at::Tensor& tensor);

 protected:
  /// Throws: InvalidArgument as check_piece
  at::Tensor& register_piece(const std::string& name, Piece piece, const at::TensorOptions& options,
                             bool is_buffer = false);
  /// The same, stored in a member of this module, which replace_piece sets too.
  void register_piece(at::Tensor& member, const std::string& name, Piece piece, const at::TensorOptions& options,
                      bool is_buffer = false);

 private:
  std::map<std::string, Piece> pieces_;
  std::map<std::string, at::Tensor*> members_;
};

/// All parameters and buffers of a module and its children, in the order of registration; each once, under its first
/// name.
/// Throws: InvalidArgument, with its name, for a tensor that no ShardedModule owns and which therefore has no layout
std::vector<Parameter> parameters_of(const torch::nn::Module& module);

/// The same, where tensors without a layout are copied along every axis of the grid: each worker has a plain module, for its
/// own part of the data. Along the axes in `replicated` all workers compute the same with it. Weights of torch::nn's linear layers
/// and convolutions are matrices.
std::vector<Parameter> parameters_of(const torch::nn::Module& module, const Grid& grid,
                                     const std::vector<std::string>& replicated = {});

/// What check_gradients needs to know of parameters: their layouts.
std::vector<KnownTensor> known_tensors(const std::vector<Parameter>& parameters);

/// Fills the pieces of a module's ShardedModules as their `Initial` says. The same seed gives the same global tensors in every
/// layout.
/// Cost: about 25 ns a normal number on one core; no communication
void initialize(const torch::nn::Module& module, uint64_t seed);
/// The same for parameters that have an `initial`; their layouts may differ from their module's.
void initialize(const std::vector<Parameter>& parameters, uint64_t seed);

}  // namespace adjoin::nn
