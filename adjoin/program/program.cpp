#include "adjoin/program/program.hpp"

#include <ATen/core/grad_mode.h>

#include <map>
#include <set>

#include "adjoin/base/text.hpp"
#include "adjoin/program/declared.hpp"
#include "adjoin/program/evaluation.hpp"
#include "adjoin/program/fit.hpp"
#include "adjoin/program/program_parts.hpp"
#include "adjoin/program/recompute.hpp"

namespace adjoin::program {

class Program::State {
 public:
  State(Parts parts, torch::nn::Module& module) : parts(std::move(parts)) {
    training = bound(this->parts.training, this->parts.training.graph);
    if (this->parts.evaluation) {
      evaluation = bound(*this->parts.evaluation, this->parts.evaluation->graph);
    } else {
      derived = evaluation_of(this->parts.training);
      evaluation = bound(this->parts.training, derived.graph);
    }
    drops_nothing = without_dropout(this->parts.training.graph);
    for (size_t i = 0; i < training.outer->inputs.size(); ++i) {
      const GraphInput& input = training.outer->inputs[i];
      const auto slot = static_cast<size_t>(training.outer->graph.inputs[i]);
      if (input.kind == GraphInput::Kind::user)
        inputs.push_back({input.name, training.outer->graph.values[slot].tensor});
      if (input.kind == GraphInput::Kind::buffer && !input.is_persistent) passing_buffers.push_back(input.name);
    }
    add_tensors(module);
  }

  const Bound& of_mode(bool is_training) const {
    if (is_training) {
      require(drops_nothing.empty(), [&] {
        return parts.path + ": it was exported in eval mode, as " + drops_nothing +
               " drops nothing: call train() on the model before the export, or eval() on this module";
      });
      return training;
    }
    require(derived.why_not.empty(), [&] {
      return parts.path + ": its training graph does not show what eval() changes, as " + derived.why_not +
             ": write the file by adjoin.export_program, which adds the graph of eval mode";
    });
    return evaluation;
  }

  void check_inputs(const Bound& bound, const std::vector<c10::IValue>& given) const {
    require(given.size() == inputs.size(), [&] {
      std::vector<std::string> names;
      for (const Input& input : inputs) names.push_back(input.name);
      return parts.path + ": expected " + counted(static_cast<int64_t>(inputs.size()), "input") + " (" + joined(names) +
             "), got " + std::to_string(given.size());
    });
    std::map<std::string, std::pair<int64_t, std::string>> symbols;  // with the input that has it
    for (size_t i = 0; i < given.size(); ++i) {
      const Declared& declared = bound.graph->values[static_cast<size_t>(bound.user_inputs[i])];
      if (declared.tensor) {
        check_tensor(declared, given[i], symbols);
      } else {
        require(given[i].isInt(), [&] { return about(declared) + "expected a whole number"; });
        if (declared.number) check_size(declared, "", *declared.number, given[i].toInt(), symbols);
      }
    }
  }

  void recompute(const std::vector<std::string>& modules) {
    std::set<Slot> weights;
    for (const auto& [slot, tensor] : training.weights) weights.insert(slot);
    again = with_recomputed(parts.training.graph, weights, modules, /*all=*/true);
    recomputed_modules = modules;
    training.graph = &again;
  }

  const Parts parts;
  Evaluation derived;  // where the file has none
  std::vector<Input> inputs;
  std::vector<std::pair<std::string, std::string>> shared_names;
  std::vector<std::string> passing_buffers, recomputed_modules;
  Graph again;  // the training graph with what is recomputed

 private:
  Bound bound(const OuterGraph& outer, const Graph& graph) const {
    Bound bound{&outer, &graph};
    for (size_t i = 0; i < outer.inputs.size(); ++i) {
      const GraphInput& input = outer.inputs[i];
      if (input.kind == GraphInput::Kind::user) {
        bound.user_inputs.push_back(outer.graph.inputs[i]);
      } else if (input.kind != GraphInput::Kind::constant) {
        const bool is_constant = input.kind == GraphInput::Kind::constant_tensor;
        const auto& own = &outer == &parts.training ? parts.constants : parts.evaluation_constants;
        const auto& tensors = is_constant && own.contains(input.name) ? own : parts.tensors;
        const at::Tensor& tensor = tensors.at(input.name);
        bound.weights.emplace_back(outer.graph.inputs[i], tensor);
        if (input.kind == GraphInput::Kind::buffer) bound.buffers[input.name] = tensor;
      }
    }
    return bound;
  }

  /// Gives the module its parameters and buffers, each once, in modules of Python's names.
  void add_tensors(torch::nn::Module& module) {
    std::map<const void*, std::string> names;
    for (const GraphInput& input : parts.training.inputs) {
      const bool is_parameter = input.kind == GraphInput::Kind::parameter;
      if (!is_parameter && input.kind != GraphInput::Kind::buffer) continue;
      const at::Tensor& tensor = parts.tensors.at(input.name);
      const auto [first, is_new] = names.emplace(tensor.unsafeGetTensorImpl(), input.name);
      if (!is_new) {
        shared_names.emplace_back(input.name, first->second);
        continue;
      }
      const auto path = parts_of(input.name, '.');
      torch::nn::Module* owner = &module;
      std::string place;
      for (size_t i = 0; i + 1 < path.size(); ++i) {
        if (i > 0) place += '.';
        place += path[i];
        auto& inner = modules_[place];
        if (inner == nullptr)
          inner = owner->register_module(std::string(path[i]), std::make_shared<torch::nn::Module>());
        owner = inner.get();
      }
      const std::string last(path.back());
      if (is_parameter)
        owner->register_parameter(last, tensor, tensor.requires_grad());
      else
        owner->register_buffer(last, tensor);
    }
  }

  std::string about(const Declared& declared) const {
    return parts.path + ": input " + in_quotes(declared.name) + ": ";
  }

  void check_tensor(const Declared& declared, const c10::IValue& given,
                    std::map<std::string, std::pair<int64_t, std::string>>& symbols) const {
    const TensorSpec& spec = *declared.tensor;
    require(given.isTensor() && given.toTensor().defined(), [&] { return about(declared) + "expected a tensor"; });
    const at::Tensor& x = given.toTensor();
    const bool are_floating =
        c10::isFloatingType(spec.type) && x.is_floating_point();  // weights may have been cast too
    require((are_floating || x.scalar_type() == spec.type) && x.sizes().size() == spec.sizes.size(), [&] {
      return about(declared) + "expected " + to_string(spec) + ", got " + c10::toString(x.scalar_type()) + " [" +
             joined(x.sizes()) + "]";
    });
    for (size_t dim = 0; dim < spec.sizes.size(); ++dim)
      check_size(declared, "dim " + std::to_string(dim) + " has ", spec.sizes[dim], x.size(static_cast<int64_t>(dim)),
                 symbols);
  }

  void check_size(const Declared& declared, const std::string& what, const Size& size, int64_t given,
                  std::map<std::string, std::pair<int64_t, std::string>>& symbols) const {
    require(!size.is_fixed || given == *size.example, [&] {
      return about(declared) + what + std::to_string(given) + ", and it was exported for " +
             std::to_string(*size.example) + " alone: export it with this size dynamic";
    });
    if (size.symbol.empty()) return;
    const auto [first, is_new] = symbols.emplace(size.symbol, std::pair(given, declared.name));
    require(first->second.first == given, [&] {
      return about(declared) + what + std::to_string(given) + ", and it is the same size as one of " +
             in_quotes(first->second.second) + ", " + std::to_string(first->second.first);
    });
    const auto range = parts.training.symbols.find(size.symbol);
    if (!is_new || range == parts.training.symbols.end()) return;
    // PyTorch exports dynamic sizes from 2 on where it has not asked whether 0 and 1 differ: they mostly work.
    const int64_t least = range->second.least.value_or(0) <= 2 ? 0 : *range->second.least;
    require(given >= least && given <= range->second.most.value_or(given), [&] {
      return about(declared) + what + std::to_string(given) + ", expected " + std::to_string(least) + " to " +
             (range->second.most ? std::to_string(*range->second.most) : "any");
    });
  }

  Bound training, evaluation;
  std::string drops_nothing;
  std::map<std::string, std::shared_ptr<torch::nn::Module>> modules_;
};

at::Device Program::Bound::device() const {
  return weights.empty() ? at::Device(at::kCPU) : weights.front().second.device();
}

Values Program::Bound::begin(const std::vector<c10::IValue>& inputs) const {
  Values values(graph->values.size());
  const at::Device device = this->device();
  for (const auto& [slot, tensor] : weights)  // constants do not move with the module
    values[static_cast<size_t>(slot)] = tensor.device() == device ? tensor : tensor.to(device);
  for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<size_t>(user_inputs[i])] = inputs[i];
  return values;
}

parallel::Bundle Program::Bound::results(const Values& values) const {
  std::vector<parallel::Bundle::Item> items;
  for (size_t i = 0; i < outer->outputs.size(); ++i) {
    const GraphOutput& output = outer->outputs[i];
    const c10::IValue value = output_value(graph->outputs[i], values);
    if (output.is_buffer) {
      const at::NoGradGuard no_gradient;
      require(value.isTensor(), [&] { return "the new value of the buffer " + output.name + " is no tensor"; });
      buffers.at(output.name).copy_(value.toTensor());
    } else if (value.isTensor()) {
      items.push_back({output.name, value.toTensor()});
    } else if (value.isScalar()) {
      items.push_back({output.name, as_tensor(value)});
    }
  }
  return items;
}

Program::Program(Parts parts) : state_(std::make_unique<State>(std::move(parts), *this)) {}
Program::~Program() = default;

parallel::Bundle Program::run(const std::vector<c10::IValue>& inputs) {
  const Bound& bound = this->bound(is_training());
  check(bound, inputs);
  Values values = bound.begin(inputs);
  program::run(*bound.graph, values, bound.device());
  return bound.results(values);
}
void Program::recompute(const std::vector<std::string>& modules) {
  state_->recompute(modules);
}
const Program::Bound& Program::bound(bool is_training) const {
  return state_->of_mode(is_training);
}
void Program::check(const Bound& bound, const std::vector<c10::IValue>& inputs) const {
  state_->check_inputs(bound, inputs);
}
const std::vector<std::string>& Program::recomputed_modules() const {
  return state_->recomputed_modules;
}
const std::vector<Program::Input>& Program::inputs() const {
  return state_->inputs;
}
const std::vector<std::pair<std::string, std::string>>& Program::shared_names() const {
  return state_->shared_names;
}
const std::vector<std::string>& Program::passing_buffers() const {
  return state_->passing_buffers;
}
std::string Program::eval_mode() const {
  if (state_->parts.evaluation) return "a graph of its own";
  return state_->derived.why_not.empty() ? "the training graph" : "none: " + state_->derived.why_not;
}
const OuterGraph& Program::graph() const {
  return state_->parts.training;
}
const std::string& Program::path() const {
  return state_->parts.path;
}

}  // namespace adjoin::program
