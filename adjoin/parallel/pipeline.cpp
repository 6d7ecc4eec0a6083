#include "adjoin/parallel/pipeline.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
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

/// A tensor of a stage's output, of which only the edge from which backward begins is kept, or nothing if it requires no gradient.
struct Output {
  ItemSpec spec;
  at::TensorOptions options;
  torch::autograd::Edge edge = {};
  /// Its gradient, which backward takes from here: LibTorch would keep what it is given until backward ends.
  std::shared_ptr<at::Tensor> gradient = std::make_shared<at::Tensor>();
};

/// A micro-batch in a stage, from its forward pass until all its gradients are computed. Of its input and its output, the
/// tensors whose gradients travel.
struct InFlight {
  std::vector<Bundle::Item> input;
  std::vector<Output> output;
  PostponedGradients weights;
};

/// What one stage receives from its neighbour: outputs of the previous stage, or gradients from the next one.
///
/// Messages come in the order in which that stage's rank sends them. Those that come before they are needed are kept.
struct Inbox {
  std::vector<int> order = {};  // order in which the micro-batches arrive, if they come from another rank
  size_t next = 0;
  std::map<int, Bundle> there = {};
};

bool makes_gradient_of_input(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::input;
}

/// As torch::autograd::backward, for tensors that may be gone: a hook of each knows its gradient.
void begin_backward(const std::vector<Output>& outputs) {
  torch::autograd::edge_list edges;
  torch::autograd::variable_list zeros;
  for (const Output& output : outputs) {
    if (!output.edge.is_valid()) continue;
    edges.push_back(output.edge);
    zeros.push_back(at::zeros({}, output.options).expand(output.spec.sizes));
  }
  if (edges.empty()) return;
  torch::autograd::Engine::get_default_engine().execute(edges, zeros, /*keep_graph=*/false, /*create_graph=*/false,
                                                        /*accumulate_grad=*/true);
}

Output output_of(const std::string& name, const at::Tensor& tensor) {
  Output output{{name, tensor.sizes().vec(), tensor.scalar_type(), /*has_gradient=*/false},
                tensor.options().requires_grad(false)};
  if (tensor.requires_grad()) {
    const at::Tensor handed_on = tensor.view_as(tensor);  // a node of its own, before all hooks of the tensor
    output.edge = torch::autograd::impl::gradient_edge(handed_on);
    handed_on.register_hook([gradient = output.gradient](const at::Tensor&) { return std::exchange(*gradient, {}); });
  }
  return output;
}

/// The leaf that gets a stage's gradient as a tensor that was computed, so that the stage may change it in place.
at::Tensor computed_from(const at::Tensor& leaf) {
  if (!leaf.requires_grad()) return leaf;
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
  /// For each tensor, one tag for outputs to the next stage, and one for gradients to the previous one.
  int tag_of(int from, int to, size_t tensor) const {
    return 2 * (static_cast<int>(tensor) * schedule_.stages + std::min(from, to)) + (from < to ? 0 : 1);
  }

  void act(const Action& action) {
    if (action.kind == ActionKind::forward)
      forward(action);
    else if (action.kind == ActionKind::weight)
      compute_weights(action);
    else
      backward(action);
  }

  void forward(const Action& action) {
    const auto [stage, kind, micro_batch] = action;
    InFlight flight;
    const Bundle leaves = stage > 0 ? take(stage - 1, stage, micro_batch) : Bundle();
    std::vector<Bundle::Item> input;
    for (const Bundle::Item& leaf : leaves.items()) {
      input.push_back({leaf.name, computed_from(leaf.tensor)});
      if (leaf.tensor.requires_grad()) flight.input.push_back(leaf);
    }
    const Bundle output = work_.forward(stage, micro_batch, std::move(input));
    if (is_last(stage)) {
      const at::Tensor loss = work_.loss(micro_batch, output);
      if (has_backward_) flight.output.push_back(output_of("the loss", loss));
    } else {
      const Bundle next = for_next_stage(output, stage, micro_batch);
      for (size_t i = 0; i < next.size(); ++i)
        if (const auto& [name, tensor] = output.items()[i]; next.items()[i].tensor.requires_grad())
          flight.output.push_back(output_of(name, tensor));
      give(next, stage, stage + 1, micro_batch);
    }
    if (has_backward_) flying_[{stage, micro_batch}] = std::move(flight);
  }

  void backward(const Action& action) {
    InFlight& flight = flying_.at({action.stage, action.micro_batch});
    if (is_last(action.stage)) {
      const Output& loss = flight.output.front();
      *loss.gradient = at::full(loss.spec.sizes, work_.loss_scale, loss.options);
    } else {
      const Bundle gradients = take(action.stage + 1, action.stage, action.micro_batch);
      for (size_t i = 0; i < gradients.size(); ++i) *flight.output[i].gradient = gradients.items()[i].tensor;
    }
    const std::vector<Output> output = std::exchange(flight.output, {});
    const std::vector<Bundle::Item> input = std::exchange(flight.input, {});
    const auto run = [&] { begin_backward(output); };
    action.kind == ActionKind::input ? flight.weights.collect(run) : run();
    if (action.stage > 0) {
      std::vector<Bundle::Item> gradients;
      for (const auto& [name, leaf] : input) {
        const at::Tensor gradient = std::exchange(leaf.mutable_grad(), {});  // postponed gradients may keep the leaf
        gradients.push_back({name, gradient.defined() ? gradient : at::zeros_like(leaf)});
      }
      give(std::move(gradients), action.stage, action.stage - 1, action.micro_batch);
    }
    if (action.kind == ActionKind::backward) flying_.erase({action.stage, action.micro_batch});
  }

  void compute_weights(const Action& action) {
    const auto found = flying_.find({action.stage, action.micro_batch});
    found->second.weights.compute();
    flying_.erase(found);
  }

  /// An output as the next stage gets it: out of autograd's graph, and requiring a gradient where one comes back.
  Bundle for_next_stage(const Bundle& output, int stage, int micro_batch) const {
    BundleSpec spec = spec_of(output);
    if (rank_of(stage + 1) != ranks_.rank() && work_.output_shape) {
      const BundleSpec expected = expected_of(stage, micro_batch);
      check_fits(spec, expected, "stage " + std::to_string(stage), "stage " + std::to_string(stage + 1));
      spec = expected;
    }
    std::vector<Bundle::Item> items;
    for (size_t i = 0; i < output.size(); ++i) {
      const auto& [name, tensor] = output.items()[i];
      items.push_back({name, tensor.detach().requires_grad_(spec.items[i].has_gradient)});
    }
    return items;
  }

  /// What output_shape says, with the type of each tensor, and whether its gradient comes back.
  BundleSpec expected_of(int stage, int micro_batch) const {
    BundleSpec spec = work_.output_shape(stage, micro_batch);
    for (ItemSpec& item : spec.items) {
      item.type = item.type.value_or(c10::typeMetaToScalarType(work_.output.dtype()));
      item.has_gradient &= has_backward_ && (at::isFloatingType(*item.type) || at::isComplexType(*item.type));
    }
    return spec;
  }

  void give(const Bundle& bundle, int from, int to, int micro_batch) {
    if (rank_of(to) == ranks_.rank()) {
      inbox(from, to).there.emplace(micro_batch, bundle);
      return;
    }
    if (from < to && !work_.output_shape) {
      const std::vector<int64_t> numbers = numbers_of(spec_of(bundle));
      for (const at::Tensor& ahead : {at::tensor({std::ssize(numbers)}), at::tensor(numbers)})
        sent_.send(ahead, ranks_, rank_of(to), tag_of(from, to, 0));
    }
    for (size_t i = 0; i < bundle.size(); ++i)
      sent_.send(bundle.items()[i].tensor.detach(), ranks_, rank_of(to), tag_of(from, to, i));
  }

  Bundle take(int from, int to, int micro_batch) {
    Inbox& in = inbox(from, to);
    while (!in.there.contains(micro_batch)) {
      const int coming = in.order[in.next++];
      const auto begin = Clock::now();
      Bundle received = receive(from, to, coming);
      waited_ += Clock::now() - begin;
      sent_.drop_received();
      in.there.emplace(coming, std::move(received));
    }
    return std::move(in.there.extract(micro_batch).mapped());
  }

  Bundle receive(int from, int to, int micro_batch) {
    BundleSpec spec;
    if (from < to)
      spec = work_.output_shape ? expected_of(from, micro_batch) : announced(from, to);
    else
      for (const Output& output : flying_.at({to, micro_batch}).output) spec.items.push_back(output.spec);
    std::vector<Bundle::Item> items;
    std::vector<Message> messages;
    for (const ItemSpec& item : spec.items) {
      items.push_back({item.name, at::empty(item.sizes, work_.output.dtype(item.type))});
      messages.push_back(
          receive_of(buffer_of_reals(items.back().tensor), rank_of(from), tag_of(from, to, messages.size())));
    }
    if (!messages.empty()) ranks_.carry_out({.name = "recv", .messages = messages});
    for (size_t i = 0; i < items.size(); ++i) items[i].tensor.requires_grad_(spec.items[i].has_gradient);
    return items;
  }

  /// What travels ahead of tensors whose sizes this rank does not know.
  BundleSpec announced(int from, int to) {
    int64_t count = 0;
    ranks_.recv(buffer(count), rank_of(from), tag_of(from, to, 0));
    std::vector<int64_t> numbers(static_cast<size_t>(count));
    ranks_.recv(buffer(numbers), rank_of(from), tag_of(from, to, 0));
    return spec_from(numbers);
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
