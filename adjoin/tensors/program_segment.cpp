#include "adjoin/tensors/program_segment.hpp"

#include <ATen/ops/ones.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/parallel/automatic.hpp"
#include "adjoin/program/declared.hpp"
#include "adjoin/task/precision.hpp"

namespace adjoin::train {
namespace {

constexpr int64_t kMostSamples = int64_t{1} << 24;  // of a batch

/// The pieces of a program's weights under Python's names. They have their values already: none is initialized.
class ProgramPieces : public nn::ShardedModule {
 public:
  void add(const std::string& name, const nn::Parameter& parameter) {
    const size_t dot = name.find('.');
    if (dot == std::string::npos) {
      register_piece(name, {parameter.layout, parameter.grid, nn::Initial::zeros()}, parameter.tensor.options(),
                     parameter.is_buffer) = parameter.tensor;
      return;
    }
    std::shared_ptr<ProgramPieces>& child = children_[name.substr(0, dot)];
    if (!child) child = register_module(name.substr(0, dot), std::make_shared<ProgramPieces>());
    child->add(name.substr(dot + 1), parameter);
  }

 private:
  std::map<std::string, std::shared_ptr<ProgramPieces>> children_;
};

/// A worker's program on a grid.
class LaidOutProgram : public ProgramPieces {
 public:
  LaidOutProgram(std::shared_ptr<program::Program> net, const Grid& grid, parallel::Cuts cuts, bool shards)
      : net_(std::move(net)), model_(*net_, grid, std::move(cuts)) {
    if (shards)
      model_.shards();
    else
      model_.trained();
    for (const nn::Parameter& parameter : model_.parameters()) add(parameter.name, parameter);
  }

  at::Tensor forward(const std::vector<at::Tensor>& inputs, const std::string& output, const Step& step) {
    const Grid& grid = model_.grid();
    samples_of_ranks(inputs.front().size(0), step.first_sample);
    Step drawn{.seed = step.seed, .number = step.number, .training = step.training};
    if (first_ > 0)  // each micro-batch draws its own numbers, the same in every layout
      drawn.seed = mix(step.seed + static_cast<uint64_t>(first_));
    model_.begin(drawn);
    const auto alike = model_.draw_alike();
    net_->train(step.training);
    std::vector<c10::IValue> all;
    for (const at::Tensor& input : inputs) {
      std::vector<int64_t> shape = input.sizes().vec();
      shape[0] = samples_;
      all.emplace_back(global({input, of_samples(shape), grid}));
    }
    const parallel::Bundle results = net_->run(std::move(all));
    const at::Tensor& result = results.size() == 1 ? static_cast<const at::Tensor&>(results) : results[output];
    const bool has_samples = result.dim() > 0 && result.size(0) == samples_;
    const Layout wanted = has_samples ? of_samples(result.sizes().vec())
                                      : Layout(grid.shape(), result.sizes().vec(), {}, {{"dp", Kind::copied}});
    const std::shared_ptr<GlobalGrid> home = global_grid(grid);
    return moved(result, home->interned(wanted), *home);
  }

 private:
  /// Learns how many samples each rank along dp has, and which sample of the batch is the first of all.
  void samples_of_ranks(int64_t mine, int64_t first) {
    begins_.clear();
    samples_ = 0;
    const std::vector<int64_t> of_ranks = numbers_of_all(first * kMostSamples + mine, model_.grid().axis("dp"));
    for (const int64_t of_rank : of_ranks) {
      begins_.push_back(samples_);
      samples_ += of_rank % kMostSamples;
    }
    first_ = of_ranks.front() / kMostSamples;
  }

  /// The layout of a tensor of the samples of all ranks.
  Layout of_samples(const std::vector<int64_t>& shape) const {
    if (begins_.size() == 1) return Layout(model_.grid().shape(), shape);
    return Layout(model_.grid().shape(), shape, {{Split::at(begins_, samples_, 0), {"dp"}}});
  }

  std::shared_ptr<program::Program> net_;
  parallel::Distributed model_;
  std::vector<int64_t> begins_;
  int64_t samples_ = 0, first_ = 0;
};

/// A tensor such as the program was exported with, of `samples` samples unless it takes another number alone.
at::Tensor example_of(const program::TensorSpec& spec, int64_t samples) {
  std::vector<int64_t> sizes;
  for (const program::Size& size : spec.sizes) sizes.push_back(size.example.value_or(2));
  if (!sizes.empty() && !spec.sizes[0].is_fixed) sizes[0] = samples;
  return at::ones(sizes, spec.type);
}

/// The place of the output that is trained among the outer graph's.
size_t wanted_output(const program::OuterGraph& outer, bool is_loss) {
  std::optional<size_t> first;
  for (size_t i = 0; i < outer.outputs.size(); ++i) {
    if (outer.outputs[i].is_buffer) continue;
    if (outer.outputs[i].name == (is_loss ? "loss" : "logits")) return i;
    if (!first) first = i;
  }
  require(first.has_value(), "it returns nothing");
  return *first;
}

}  // namespace

ProgramNet::ProgramNet(const Configuration& configuration)
    : configuration_(configuration), net_(program::load_program(configuration.program)) {
  const auto check = [&](bool is_right, const std::string& what) {
    require(is_right, [&] { return path() + ": " + what; });
  };
  for (const program::Program::Input& input : net_->inputs()) {
    check(input.tensor && !input.tensor->sizes.empty(), "input \"" + input.name + "\" is one number, expected samples");
    inputs_.push_back({input.name, *input.tensor});
  }
  check(!inputs_.empty(), "it takes no input");
  check(!net_->eval_mode().starts_with("none"),
        "it cannot be evaluated, as its training graph does not show what eval() "
        "changes: write it by adjoin.export_program");
  const at::ScalarType type = weight_type(configuration.precision);
  for (const auto& item : net_->named_parameters())
    check(!item.value().is_floating_point() || item.value().scalar_type() == type,
          "\"" + item.key() + "\" is " + c10::toString(item.value().scalar_type()) + ", and --precision " +
              text_of("precision", configuration) + " trains " + c10::toString(type) +
              ": a program keeps the types with which it was exported");
  const bool is_loss = configuration.is_of_tensors() && configuration.loss == TensorLoss::none;
  const program::OuterGraph& outer = net_->graph();
  const size_t wanted = wanted_output(outer, is_loss);
  output_name_ = outer.outputs[wanted].name;
  const program::Argument& argument = outer.graph.outputs[wanted];
  const auto declared = argument.kind == program::Argument::Kind::value
                            ? outer.graph.values[static_cast<size_t>(argument.slots[0])].tensor
                            : std::nullopt;
  check(declared && c10::isFloatingType(declared->type), "its output \"" + output_name_ + "\" is no tensor of floats");
  output_ = *declared;
  check(!is_loss || output_.sizes.empty(), "--loss none: expected a loss, one number, got the output \"" +
                                               output_name_ + "\", " + program::to_string(output_));
  check(is_loss || !output_.sizes.empty(),
        "its output \"" + output_name_ + "\" is one number: is it the loss (--loss none)?");
  if (configuration.tp == 1) return;
  parallel::AutomaticOptions options{.weights_over = {"tp"}};
  std::vector<c10::IValue> examples;
  std::vector<at::Tensor> tensors;
  for (const Input& input : inputs_) {
    options.inputs.push_back({"samples over dp"});
    tensors.push_back(
        example_of(input.spec, std::max<int64_t>(configuration.dp, configuration.batch / configuration.microbatches)));
    examples.emplace_back(tensors.back());
  }
  parallel::CutSearch search(
      parallel::tensors_of(*net_), configuration.shape().at("pp", 0), tensors, [&] { net_->run(examples); }, options);
  cuts_ = search.best();
}

std::string sizes_of_samples(const at::Tensor& tensor) {
  std::string text = "samples";
  for (const int64_t size : tensor.sizes().slice(1)) text += ", " + std::to_string(size);
  return text;
}

std::optional<int64_t> ProgramNet::batch() const {
  for (const Input& input : inputs_)
    if (input.spec.sizes[0].is_fixed) return input.spec.sizes[0].example;
  return std::nullopt;
}

std::string ProgramNet::description() const {
  const std::string name = std::filesystem::path(path()).filename().string();
  if (configuration_.tp == 1) return name;
  const std::vector<parallel::NamedTensor> tensors = parallel::tensors_of(*net_);
  const auto cut = std::ranges::count_if(tensors, [&](const parallel::NamedTensor& tensor) {
    return std::ranges::any_of(cuts_.weights,
                               [&](const auto& text) { return parallel::pattern_names(text.first, tensor.name); });
  });
  return name + ", " + std::to_string(cut) + " of its " + counted(std::ssize(tensors), "tensor") + " cut over tp";
}

void ProgramNet::check(const Input& input, const at::Tensor& given, const std::string& where) {
  const program::TensorSpec& spec = input.spec;
  const auto is_integer = [](at::ScalarType type) { return c10::isIntegralType(type, /*includeBool=*/false); };
  const bool same_type = given.scalar_type() == spec.type ||
                         (c10::isFloatingType(spec.type) && given.is_floating_point()) ||
                         (is_integer(spec.type) && is_integer(given.scalar_type()));
  bool fits = same_type && given.dim() == std::ssize(spec.sizes);
  for (size_t dim = 1; fits && dim < spec.sizes.size(); ++dim)
    fits = !spec.sizes[dim].is_fixed || *spec.sizes[dim].example == given.size(static_cast<int64_t>(dim));
  require(fits, [&] {
    return where + " is " + c10::toString(given.scalar_type()) + " [" + sizes_of_samples(given) + "], and input \"" +
           input.name + "\" of the program takes " + program::to_string(spec);
  });
}

std::shared_ptr<torch::nn::Module> ProgramNet::made(const Grid& stage, const at::TensorOptions& tensor) const {
  if (tensor.device().is_meta()) return net_;  // its names and shapes
  const std::shared_ptr<program::Program> own = program::load_program(path());
  own->to(tensor.device());
  return std::make_shared<LaidOutProgram>(own, stage, cuts_, configuration_.zero == 3);
}

models::Segment ProgramNet::segment(Unpack unpack, Pack pack) const {
  return models::segment<LaidOutProgram>(
      kProgramPart, [this](const Grid& stage, const at::TensorOptions& tensor) { return made(stage, tensor); },
      [this, unpack = std::move(unpack), pack = std::move(pack)](LaidOutProgram& net, const at::Tensor& x,
                                                                 const ForwardPass& pass) {
        std::vector<at::Tensor> inputs = unpack(x);
        for (size_t i = 0; i < inputs.size(); ++i) {
          const at::ScalarType type = inputs_[i].spec.type;
          inputs[i] = inputs[i].to(x.device(), type);
        }
        const at::Tensor output = net.forward(inputs, output_name_, pass.step);
        return pack ? pack(output, x) : output;
      });
}

}  // namespace adjoin::train
