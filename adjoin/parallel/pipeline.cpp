#include "adjoin/parallel/pipeline.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/turns.hpp"
#include "adjoin/lab/timeline.hpp"
#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/postponed.hpp"
#include "adjoin/movement/sent_tensors.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::parallel {
namespace {

using pipeline::Action;
using pipeline::Schedule;
using ActionKind = pipeline::Kind;

/// A micro-batch in a stage, from its forward pass until all its gradients are computed. The output goes to the next stage;
/// only the edge from which backward begins is kept of it.
struct InFlight {
  at::Tensor input;
  torch::autograd::Edge output;
  at::Tensor like_output;  // with its shape and type, without memory
  /// The output's gradient, which backward takes from here: LibTorch would keep what it is given until backward ends.
  std::shared_ptr<at::Tensor> gradient = std::make_shared<at::Tensor>();
  PostponedGradients weights;
};

/// What one stage receives from its neighbour: outputs of the previous stage, or gradients from the next one.
///
/// Messages come in the order in which that stage's rank sends them. Those that come before they are needed are kept.
struct Inbox {
  std::vector<int> order = {};  // order in which the micro-batches arrive, if they come from another rank
  size_t next = 0;
  std::map<int, at::Tensor> there = {};
};

bool makes_gradient_of_input(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::input;
}

/// As torch::autograd::backward, for a tensor that may be gone.
void begin_backward(const torch::autograd::Edge& output, at::Tensor gradient) {
  torch::autograd::Engine::get_default_engine().execute({output}, {std::move(gradient)}, /*keep_graph=*/false,
                                                        /*create_graph=*/false, /*accumulate_grad=*/true);
}

/// The leaf that gets a stage's gradient as a tensor that was computed, so that the stage may change it in place.
at::Tensor computed_from(const at::Tensor& leaf) {
  if (!leaf.defined()) return leaf;
  const auto same = [](const at::Tensor& t) { return t.detach(); };
  return apply({.forward = same, .adjoint = same}, leaf);
}

class PipelineRank {
 public:
  PipelineRank(const Schedule& schedule, const Communicator& ranks, const PipelineWork& work)
      : schedule_(schedule), ranks_(ranks), work_(work) {
    for (const Action& action : mine()) has_backward_ |= action.kind != ActionKind::forward;
  }

  void run() {
    const at::AutoGradMode gradients(has_backward_);
    if (work_.turns)
      Turns(*work_.turns).run([this] { run_part(0, 2); }, [this] { run_part(1, 2); });
    else
      run_part(0, 1);
    sent_.wait();
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// The actions of every micro-batch whose number modulo `parts` is `part`.
  void run_part(int part, int parts) {
    for (const Action& action : mine()) {
      if (action.micro_batch % parts != part) continue;
      sent_.drop_received();
      const auto begin = Clock::now();
      waited_ = {};
      {
        const std::string_view letter = std::string_view("FBIW").substr(static_cast<size_t>(action.kind), 1);
        const lab::TimeSlice slice(letter, action.micro_batch, action.stage);
        act(action);
      }
      if (work_.observer) work_.observer(action, std::chrono::duration<double>(Clock::now() - begin - waited_).count());
    }
  }

  const std::vector<Action>& mine() const { return schedule_.actions[static_cast<size_t>(ranks_.rank())]; }
  bool is_last(int stage) const { return stage + 1 == schedule_.stages; }
  int rank_of(int stage) const { return schedule_.rank_of[static_cast<size_t>(stage)]; }
  /// One tag for outputs to the next stage, and one for gradients to the previous one.
  static int tag_of(int from, int to) { return 2 * std::min(from, to) + (from < to ? 0 : 1); }

  void act(const Action& action) {
    if (action.kind == ActionKind::forward)
      forward(action);
    else if (action.kind == ActionKind::weight)
      compute_weights(action);
    else
      backward(action);
  }

  void forward(const Action& action) {
    InFlight flight;
    if (action.stage > 0) {
      flight.input = take(action.stage - 1, action.stage, action.micro_batch);
      flight.input.requires_grad_(has_backward_);
    }
    at::Tensor output = work_.forward(action.stage, action.micro_batch, computed_from(flight.input));
    if (is_last(action.stage))
      output = work_.loss(action.micro_batch, output);
    else
      give(output.detach(), action.stage, action.stage + 1, action.micro_batch);
    if (!has_backward_) return;
    if (output.requires_grad()) {
      const at::Tensor handed_on = output.view_as(output);  // a node of its own, before all hooks of the output
      flight.output = torch::autograd::impl::gradient_edge(handed_on);
      handed_on.register_hook([gradient = flight.gradient](const at::Tensor&) { return std::exchange(*gradient, {}); });
    }
    flight.like_output = at::empty(output.sizes(), output.options().device(at::kMeta));
    flying_[{action.stage, action.micro_batch}] = std::move(flight);
  }

  void backward(const Action& action) {
    InFlight& flight = flying_.at({action.stage, action.micro_batch});
    const auto on_cpu = flight.like_output.options().device(at::kCPU);
    *flight.gradient = is_last(action.stage) ? at::full(flight.like_output.sizes(), work_.loss_scale, on_cpu)
                                             : take(action.stage + 1, action.stage, action.micro_batch);
    const torch::autograd::Edge output = std::exchange(flight.output, {});
    const at::Tensor input = std::exchange(flight.input, {});
    const auto run = [&] {
      if (output.is_valid()) begin_backward(output, at::zeros({}, on_cpu).expand(flight.like_output.sizes()));
    };
    action.kind == ActionKind::input ? flight.weights.collect(run) : run();
    if (input.defined()) {
      const at::Tensor of_input = std::exchange(input.mutable_grad(), {});  // postponed gradients may keep the input
      give(of_input.defined() ? of_input : at::zeros_like(input), action.stage, action.stage - 1, action.micro_batch);
    }
    if (action.kind == ActionKind::backward) flying_.erase({action.stage, action.micro_batch});
  }

  void compute_weights(const Action& action) {
    const auto found = flying_.find({action.stage, action.micro_batch});
    found->second.weights.compute();
    flying_.erase(found);
  }

  void give(const at::Tensor& tensor, int from, int to, int micro_batch) {
    if (rank_of(to) == ranks_.rank())
      inbox(from, to).there.emplace(micro_batch, tensor);
    else
      sent_.send(tensor, ranks_, rank_of(to), tag_of(from, to));
  }

  at::Tensor take(int from, int to, int micro_batch) {
    Inbox& in = inbox(from, to);
    while (!in.there.contains(micro_batch)) {
      const int coming = in.order[in.next++];
      const at::Tensor tensor = from < to ? at::empty(work_.output_shape(from, coming), work_.output)
                                          : at::empty(flying_.at({to, coming}).like_output.sizes(),
                                                      flying_.at({to, coming}).like_output.options().device(at::kCPU));
      const auto begin = Clock::now();
      ranks_.recv(buffer_of_reals(tensor), rank_of(from), tag_of(from, to));
      waited_ += Clock::now() - begin;
      sent_.drop_received();
      in.there.emplace(coming, tensor);
    }
    return std::move(in.there.extract(micro_batch).mapped());
  }

  Inbox& inbox(int from, int to) {
    const auto [found, is_new] = inboxes_.try_emplace({from, to});
    if (is_new && rank_of(from) != ranks_.rank())
      for (const Action& action : schedule_.actions[static_cast<size_t>(rank_of(from))])
        if (action.stage == from &&
            (from < to ? action.kind == ActionKind::forward : makes_gradient_of_input(action.kind)))
          found->second.order.push_back(action.micro_batch);
    return found->second;
  }

  const Schedule& schedule_;
  const Communicator& ranks_;
  const PipelineWork& work_;
  bool has_backward_ = false;
  std::map<std::pair<int, int>, InFlight> flying_;  // by stage and micro-batch
  std::map<std::pair<int, int>, Inbox> inboxes_;    // by sending and receiving stage
  SentTensors sent_;
  Clock::duration waited_{};  // during this action
};

}  // namespace

void run_pipeline(const Schedule& schedule, const Communicator& ranks, const PipelineWork& work,
                  CallSite::Where where) {
  require(std::ssize(schedule.actions) == ranks.size(), [&] {
    return "run_pipeline: expected a schedule of " + std::to_string(ranks.size()) + " ranks, got one of " +
           std::to_string(schedule.actions.size());
  });
  require(!work.turns || schedule.stages == 1, [&] {
    return "run_pipeline: expected one stage where micro-batches take turns, got " + std::to_string(schedule.stages);
  });
  const CallSite site(where);
  PipelineRank(schedule, ranks, work).run();
}

}  // namespace adjoin::parallel
