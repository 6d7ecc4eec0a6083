#pragma once

#include <string>
#include <vector>

#include "adjoin/nn/col_row.hpp"
#include "adjoin/nn/expert_rows.hpp"
#include "adjoin/nn/grouped_linear.hpp"

namespace adjoin::nn {

struct MixtureOfExpertsOptions {
  int64_t features = 0, hidden_features = 0;  ///< of each expert, two linear layers without biases
  Activation activation = Activation::gelu;   ///< between the two
  int64_t experts = 1;
  int64_t top_k = 1;             ///< experts of each row
  bool normalises_gates = true;  ///< the gates of a row's experts add up to 1, instead of their probabilities among all
  double balance_loss = 0;       ///< how much of it is added to the loss of the step
  double z_loss = 0;             ///< likewise
  std::string experts_axis =
      {};  ///< expert parallelism: the axis over which the experts are split; "": all on each rank
  std::string samples_axis = {};  ///< context parallelism: the axis over which the rows of a sample are split; "": none
  bool split_rows = false;  ///< sequence parallelism: each tensor-parallel rank has a balanced part of the pass's rows
  std::optional<double> deviation = {};  ///< of all initial weights, as a ParallelLinear's
  at::TensorOptions tensor = at::kFloat;
};

/// What mixtures of experts did on this thread while this lived: of training steps and evaluations.
class ExpertLoads {
 public:
  ExpertLoads();
  ~ExpertLoads();
  ExpertLoads(const ExpertLoads&) = delete;
  ExpertLoads& operator=(const ExpertLoads&) = delete;

  /// Rows of each expert that this rank counts; those of all ranks add up to all rows, times top_k.
  std::vector<double> rows{};
  /// The losses of routers before their factors, times the weights of their samples or tokens. They add up too.
  double balance = 0, z = 0;

 private:
  friend class MixtureOfExpertsImpl;
  ExpertLoads* outer_;
};

/// For each row, the sum of what top_k of E feed-forward layers make of it, each times its gate; no row is dropped.
///
/// The router, a linear layer in float64, scores the experts of each row. Those of the highest scores are chosen, of scores
/// that are equal to 24 bits of the largest that there may be, |x| times |r| of the longest r, those of the lower numbers. The
/// softmax of the chosen scores gives the gates. With top_k 1 the gate is 1 then, so that the router learns by its losses alone, unless normalises_gates is false.
///
/// Where a pass has a weight, two losses are added to that of the step, each times the weight of its sample, or token. One is
/// for each sample the sum over experts of E times the part of its pairs of rows and experts that went there times the mean of
/// its probabilities, which is 1 where all is even; the other the mean over its rows of the squared log-sum of exponentials of
/// the scores. They depend on no other sample, and so not on how a batch is divided. What they are is told to ExpertLoads; the
/// output is the same with and without.
///
/// Experts are split over the ranks of one axis, each of which has rows of its own: data parallelism. The rows go to their
/// experts by all_to_all, with the counts that routing gives, and back. The tensor-parallel axis cuts each expert as it cuts a
/// ColRow.
///
/// Parameters: router.weight [E, features], column.weight [E * made, features], row.weight [E * features, hidden_features], where
///         made is twice the hidden features for swiglu; the rows of expert e follow those of e - 1
/// Shape:  [rows, features] -> the same; where rows are split, the rank's part of the rows of the pass
/// Kinds:  replicated -> replicated along the tensor-parallel axis, or split -> split
/// Cost:   as a ColRow, and two small all-reduces or all-gathers for the gates; over the experts' axis a row goes to each of its experts
///         elsewhere and back, forward and again backward
/// Throws: InvalidArgument for sizes below 1, more experts of a row than there are, an axis with more ranks than experts
/// Source: Shazeer et al., arXiv 1701.06538; Fedus et al., arXiv 2101.03961, and DeepSeek-AI, arXiv 2412.19437, section 2.1.2
///         (the balance loss of each sample); Zoph et al., arXiv 2202.08906 (the z-loss)
class MixtureOfExpertsImpl : public torch::nn::Module {
 public:
  MixtureOfExpertsImpl(MixtureOfExpertsOptions options, const Grid& grid, const std::string& axis);
  at::Tensor forward(const at::Tensor& x, const ForwardPass& pass);
  const MixtureOfExpertsOptions& options() const { return options_; }

 private:
  struct Routing {
    at::Tensor rows;    ///< x, in whose backward the router's losses get their gradients
    at::Tensor gates;   ///< of those rows [rows, top_k]; undefined where they are 1
    at::Tensor chosen;  ///< of all rows of the pass here, the experts [rows, top_k]
  };
  Routing route(const at::Tensor& x, const ForwardPass& pass, const std::optional<Split>& split) const;
  /// What is added to the loss of the step.
  at::Tensor own_losses(const at::Tensor& scores, const at::Tensor& chosen, const ForwardPass& pass) const;

  MixtureOfExpertsOptions options_;
  Communicator features_, experts_, samples_;  // the groups along the three axes
  Split split_experts_;
  at::Tensor router_;  // the weight
  GroupedLinear column_{nullptr}, row_{nullptr};
};
TORCH_MODULE(MixtureOfExperts);

}  // namespace adjoin::nn
