#include "adjoin/tensors/program_segment.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/parallel/automatic.hpp"
#include "adjoin/parallel/weight_shards.hpp"
#include "adjoin/program/declared.hpp"
#include "adjoin/program/recompute.hpp"
#include "adjoin/program/stages.hpp"
#include "adjoin/task/precision.hpp"
#include "adjoin/tensors/program_on_rank.hpp"

namespace adjoin::train {
namespace {

/// The cuts of some of the weights.
parallel::Cuts cuts_of(const parallel::Cuts& all, const std::vector<parallel::NamedTensor>& tensors) {
  parallel::Cuts cuts = all;
  std::erase_if(cuts.weights, [&](const auto& cut) {
    return std::ranges::none_of(tensors, [&](const auto& one) { return parallel::pattern_names(cut.first, one.name); });
  });
  return cuts;
}

/// Those that have these names.
std::vector<parallel::NamedTensor> named(const torch::nn::Module& module, const std::vector<std::string>& names) {
  std::vector<parallel::NamedTensor> tensors = parallel::tensors_of(module);
  std::erase_if(tensors, [&](const auto& one) { return std::ranges::find(names, one.name) == names.end(); });
  return tensors;
}

/// A tensor such as the program was exported with, of `samples` samples unless it takes another number alone.
at::Tensor example_of(const program::TensorSpec& spec, int64_t samples) {
  std::vector<int64_t> sizes;
  for (const program::Size& size : spec.sizes) sizes.push_back(size.example.value_or(2));
  if (!sizes.empty() && !spec.sizes[0].is_fixed) sizes[0] = samples;
  return at::ones(sizes, spec.type);
}

void recompute_blocks(program::Program& net) {
  const std::vector<std::string> patterns = program::repeated_modules(net);
  require(!patterns.empty(), [&] { return net.path() + ": recompute: it has no list of modules, such as blocks"; });
  net.recompute(patterns);
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

/// The programs of a process's ranks, each a thread: as long as a part of its model lives.
class ProgramNet::Ranks {
 public:
  std::vector<int64_t> borders;

  template <class Open>
  std::shared_ptr<ProgramOnRank> here(const Open& open) {
    const std::scoped_lock lock(guard_);
    std::weak_ptr<ProgramOnRank>& known = of_threads_[std::this_thread::get_id()];
    std::shared_ptr<ProgramOnRank> rank = known.lock();
    if (!rank) known = rank = std::make_shared<ProgramOnRank>(open());
    return rank;
  }

 private:
  std::mutex guard_;
  std::map<std::thread::id, std::weak_ptr<ProgramOnRank>> of_threads_;
};

/// What all layouts of a network have in common.
struct ProgramNet::Known {
  std::mutex guard;
  std::map<Recompute, std::shared_ptr<program::Program>> nets;
  std::map<std::pair<Recompute, int>, std::vector<int64_t>> borders;     // of so many stages
  std::map<std::tuple<int64_t, int64_t, int64_t>, parallel::Cuts> cuts;  // by dp, tp and samples at once
};

ProgramNet::ProgramNet(const Configuration& configuration)
    : configuration_(configuration),
      net_(program::load_program(configuration.program)),
      known_(std::make_shared<Known>()) {
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
  lay_out();
}

std::shared_ptr<const ProgramNet> ProgramNet::laid_out(const Configuration& configuration) const {
  auto other = std::make_shared<ProgramNet>(*this);
  other->configuration_ = configuration;
  const auto known = known_->nets.find(configuration.recompute);
  other->net_ = known != known_->nets.end() ? known->second : program::load_program(path());
  other->lay_out();
  return other;
}

void ProgramNet::lay_out() {
  const Configuration& c = configuration_;
  cuts_ = {};
  if (c.tp > 1) {
    const auto [cuts, is_new] = known_->cuts.try_emplace({c.dp, c.tp, samples_at_once()});
    if (is_new) cuts->second = found_cuts();
    cuts_ = cuts->second;
  }
  if (c.recompute == Recompute::segment && net_->recomputed_modules().empty()) recompute_blocks(*net_);
  known_->nets[c.recompute] = net_;
}

parallel::Cuts ProgramNet::found_cuts() const {
  parallel::AutomaticOptions options{.weights_over = {"tp"}};
  options.inputs.assign(inputs_.size(), {"samples over replica"});
  const std::vector<at::Tensor> tensors = example();
  // An operation of a module that is computed again cannot be noted.
  const auto net = net_->recomputed_modules().empty() ? net_ : program::load_program(path());
  parallel::CutSearch search(
      parallel::tensors_of(*net), configuration_.shape().at("pp", 0), tensors,
      [&] {
        net->run({tensors.begin(), tensors.end()});
      },
      options);
  return search.best();
}

std::vector<at::Tensor> ProgramNet::example() const {
  std::vector<at::Tensor> tensors;
  for (const Input& input : inputs_) tensors.push_back(example_of(input.spec, samples_at_once()));
  return tensors;
}

int64_t ProgramNet::samples_at_once() const {
  return std::max<int64_t>(configuration_.dp, configuration_.batch / configuration_.microbatches);
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

int64_t ProgramNet::most_stages() const {
  const std::vector<std::string> patterns = program::repeated_modules(*net_);
  std::set<std::string> modules;
  for (const program::Node& node : net_->graph().graph.nodes) modules.insert(program::module_named(node, patterns));
  modules.erase("");
  return modules.empty() ? std::ssize(net_->graph().graph.nodes) : std::ssize(modules);
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

std::vector<int64_t> ProgramNet::borders(int stages, const Communicator& world) const {
  std::vector<int64_t> borders(static_cast<size_t>(stages) + 1);
  if (world.rank() == 0 && stages > 1) {
    const std::scoped_lock lock(known_->guard);
    std::vector<int64_t>& known = known_->borders[{configuration_.recompute, stages}];
    const std::vector<at::Tensor> tensors = known.empty() ? example() : std::vector<at::Tensor>();
    if (known.empty()) known = program::stage_borders(*net_, stages, {tensors.begin(), tensors.end()});
    borders = known;
  }
  if (stages == 1) return program::stage_borders(*net_, 1, {});
  world.broadcast(buffer(borders), /*root=*/0);
  const std::scoped_lock lock(known_->guard);
  return known_->borders[{configuration_.recompute, stages}] = borders;
}

std::shared_ptr<torch::nn::Module> ProgramNet::made(Ranks& ranks, const std::vector<std::string>& weights,
                                                    const Grid& stage, const at::TensorOptions& tensor) const {
  const bool shards = configuration_.zero == 3;
  if (tensor.device().is_meta()) {  // names and shapes of what others have
    auto pieces = std::make_shared<ProgramPieces>();
    for (const parallel::NamedTensor& one : named(*net_, weights)) {
      nn::Parameter parameter{.name = one.name,
                              .tensor = {},
                              .layout = parallel::layout_by(cuts_, one, stage.shape()),
                              .grid = stage,
                              .initial = {},
                              .is_buffer = one.is_buffer};
      parameter.tensor = at::empty(parameter.layout.shape_of(stage.cell()), one.tensor.options().device(at::kMeta))
                             .requires_grad_(one.tensor.requires_grad());
      pieces->add(one.name, shards ? parallel::kept_of(parameter, parallel::Kept::shards) : parameter);
    }
    return pieces;
  }
  const std::shared_ptr<ProgramOnRank> rank = ranks.here([&] {
    auto net = program::load_program(path());
    if (configuration_.recompute == Recompute::segment) recompute_blocks(*net);
    net->to(tensor.device());
    // A rank has the weights of its own stages alone: the parts take their values from the program that the process's ranks share.
    for (const parallel::NamedTensor& one : parallel::tensors_of(*net))
      one.tensor.set_data(at::empty({0}, one.tensor.options().requires_grad(false)));
    return ProgramOnRank{.net = net,
                         .stages = program::stages_between(net, ranks.borders),
                         .grid = parallel::as_world(stage),
                         .is_plain = configuration_.masks == Masks::torch};
  });
  const std::vector<parallel::NamedTensor> tensors = named(*rank->net, weights), values = named(*net_, weights);
  for (size_t i = 0; i < tensors.size(); ++i)
    tensors[i].tensor.set_data(
        values[i].tensor.detach().to(tensors[i].tensor.options(), /*non_blocking=*/false, /*copy=*/true));
  return std::make_shared<ProgramOnRank::Part>(rank, tensors, stage, cuts_of(cuts_, tensors), shards);
}

std::vector<models::Segment> ProgramNet::segments(int stages, const Communicator& world, Unpack unpack,
                                                  Pack pack) const {
  const auto ranks = std::make_shared<Ranks>();
  ranks->borders = borders(stages, world);
  const std::vector<parallel::Child> children = program::stages_between(net_, ranks->borders);
  std::map<std::vector<int>, std::vector<std::string>> parts;   // the weights, by the stages that have them
  for (int stage = 0; stage < stages; ++stage) parts[{stage}];  // also of a stage without weights
  for (const parallel::NamedTensor& tensor : parallel::tensors_of(*net_)) {
    std::vector<int> holders;
    for (int stage = 0; stage < stages; ++stage)
      if (stages == 1 || std::ranges::count(children[static_cast<size_t>(stage)].weights, tensor.name) > 0)
        holders.push_back(stage);
    parts[holders].push_back(tensor.name);
  }
  std::vector<models::Segment> segments;
  for (int stage = 0; stage < stages; ++stage) {
    const auto place = static_cast<size_t>(stage);
    models::Segment& segment = segments.emplace_back();
    segment.name = stages == 1 ? kProgramPart : children[place].name;
    segment.kind = segment.name;
    for (const auto& [holders, names] : parts) {
      if (std::ranges::count(holders, stage) == 0) continue;
      const std::string part = kProgramPart + (stages == 1 ? "" : " of " + joined(holders));
      segment.parts.push_back(
          {.name = part,
           .make = [this, ranks, names](const Grid& grid,
                                        const at::TensorOptions& tensor) { return made(*ranks, names, grid, tensor); },
           .weights_of = kProgramPart,
           .weights = {names.begin(), names.end()}});
    }
    segment.with_input = [this, place, unpack, pack](const models::Modules& modules, const parallel::Bundle& x,
                                                     const at::Tensor& input, const ForwardPass& pass) {
      ProgramOnRank& rank = modules.as<ProgramOnRank::Part>(0).rank();
      std::vector<at::Tensor> inputs = unpack(input);
      for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = inputs[i].to(input.device(), inputs_[i].spec.type);
      const parallel::Bundle given = rank.run(place, modules, x, inputs, pass.step, output_name_);
      const bool packs = pack && place + 1 == rank.stages.size();
      return packs ? parallel::Bundle(pack(given, input)) : given;
    };
    segment.release_whole = [](const models::Modules& modules) {
      for (size_t part = 0; part < modules.of_parts.size(); ++part)
        modules.as<ProgramOnRank::Part>(part).release_whole();
    };
  }
  return segments;
}

}  // namespace adjoin::train
