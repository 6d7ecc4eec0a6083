#pragma once

#include <string>
#include <vector>

#include "adjoin/nn/expert_tokens.hpp"
#include "adjoin/nn/grouped_linear.hpp"
#include "adjoin/nn/linear.hpp"

namespace adjoin::nn {

struct MixtureOfExpertsOptions {
  int64_t features = 0, hidden_features = 0;  ///< of each expert, which is two linear layers without biases
  Activation activation = Activation::gelu;   ///< between the two
  int64_t experts = 1;
  int64_t top_k = 1;             ///< how many experts each row goes to
  bool normalises_gates = true;  ///< a row's gates add up to 1; false: they are probabilities among all experts
  double balance_loss = 0;       ///< its factor in the loss of the step
  double z_loss = 0;             ///< likewise
  std::string experts_axis =
      {};  ///< expert parallelism: the axis over which the experts are split; "": each rank has all
  std::string samples_axis = {};  ///< context parallelism: the axis over which a sample's rows are split; "": not split
  bool split_rows = false;  ///< sequence parallelism: each tensor-parallel rank has a balanced part of the pass's rows
  std::optional<double> deviation = {};  ///< of all initial weights, as in ParallelLinear
  at::TensorOptions tensor = at::kFloat;
};

/// Counts what mixtures of experts did on this thread while it lived, in training steps and evaluations.
class ExpertLoads {
 public:
  ExpertLoads();
  ~ExpertLoads();
  ExpertLoads(const ExpertLoads&) = delete;
  ExpertLoads& operator=(const ExpertLoads&) = delete;

  /// For each expert, the rows that this rank counts; over all ranks and experts they add up to all rows, times top_k.
  std::vector<double> rows{};
  /// The routers' losses before their factors, times the weights of their samples or tokens. They add up over ranks too.
  double balance = 0, z = 0;

 private:
  friend class MixtureOfExpertsImpl;
  ExpertLoads* outer_;
};

/// For each row, the sum of the results of top_k of E feed-forward layers, each times its gate; no row is dropped.
///
/// The router, a linear layer in float64, scores the experts of each row, and the top_k with the highest scores are chosen. Two
/// scores are equal if they agree to 24 bits of the largest possible score, which is |x| times the length of the router's
/// longest weight row; of equal scores the lower expert number wins. The gates are the softmax of the chosen scores, or, where
/// normalises_gates is false, the softmax of all scores. So with top_k 1 a normalised gate is 1, and the router learns by its
/// own losses alone.
///
/// Where a pass has a weight, two losses are added to that of the step, each times the weight of its sample or token. The
/// balance loss of a sample is the sum over experts of E times the expert's share of the sample's pairs of rows and experts,
/// times the expert's mean probability; it is 1 where all is even. The z-loss is the mean over the sample's rows of the squared
/// log-sum of exponentials of the scores. Both depend on no other sample, and so not on how a batch is divided. Their values go
/// to ExpertLoads; the output is the same with and without them.
///
/// The experts are split over the ranks of one axis, where each rank has its own rows, as in data parallelism. The rows go to
/// their experts and back by all_to_all, with the counts that routing gives. The tensor-parallel axis cuts each expert as it
/// cuts a ColRow.
///
/// Parameters: router.weight [E, features], column.weight [E * made, features], row.weight [E * features, hidden_features]; for
///         swiglu `made` is twice the hidden features, else it is equal to them; the rows of expert e follow those of e - 1
/// Shape:  [rows, features] -> the same; where rows are split, the rank's part of the rows of the pass
/// Kinds:  replicated -> replicated along the tensor-parallel axis, or split -> split
/// Cost:   that of a ColRow, and two small all-reduces or all-gathers for the gates; over the experts' axis a row is sent to
///         each of its experts on another rank and back, in forward and again in backward
/// Throws: InvalidArgument for sizes below 1, for top_k above the number of experts, and for an axis with more ranks than
///         experts
/// Source: Shazeer et al., arXiv 1701.06538; Fedus et al., arXiv 2101.03961, and DeepSeek-AI, arXiv 2412.19437, section 2.1.2
///         (the balance loss of each sample); Zoph et al., arXiv 2202.08906 (the z-loss)
class MixtureOfExpertsImpl : public torch::nn::Module {
 public:
  MixtureOfExpertsImpl(MixtureOfExpertsOptions options, const Grid& grid, const std::string& axis);
  at::Tensor forward(const at::Tensor& x, const ForwardPass& pass);
  const MixtureOfExpertsOptions& options() const { return options_; }

 private:
  struct Routing {
    at::Tensor rows;    ///< x; its backward adds the gradients of the router's losses
    at::Tensor gates;   ///< of those rows [rows, top_k]; undefined where all are 1
    at::Tensor chosen;  ///< the experts of all rows of the pass here [rows, top_k]
  };
  at::Tensor scores_of(const at::Tensor& x, const std::optional<Split>& split) const;
  Routing route(const at::Tensor& x, const ForwardPass& pass, const std::optional<Split>& split) const;
  /// The losses that are added to the loss of the step.
  at::Tensor own_losses(const at::Tensor& scores, const at::Tensor& chosen, const ForwardPass& pass) const;

  MixtureOfExpertsOptions options_;
  Communicator features_, experts_, samples_;  // the groups along the three axes
  Split split_experts_;
  at::Tensor router_;  // the weight
  GroupedLinear column_{nullptr}, row_{nullptr};
};
TORCH_MODULE(MixtureOfExperts);

}  // namespace adjoin::nn
